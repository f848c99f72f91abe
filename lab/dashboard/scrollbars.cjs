// Grafana's modules import this package as Node would, which gives the exports instead of the default among them.
module.exports = require('./node_modules/react-custom-scrollbars-2').default;
