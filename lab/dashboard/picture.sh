#!/bin/sh
# Draws the dashboard of one node and of 500, light and dark, into target/dashboard, and that of 500 into docs.
set -eu
cd "$(dirname "$0")"
for nodes in 1 500; do
    for mode in light dark; do
        file="$PWD/../../target/dashboard/$nodes-$mode.png"
        chromium --headless --no-sandbox --hide-scrollbars --window-size=1400,1880 --virtual-time-budget=8000 \
            --screenshot="$file" "file://$PWD/picture.html?nodes=$nodes&mode=$mode" 2>/dev/null
        if [ "$(wc -c <"$file")" -lt 100000 ]; then
            echo "$file is empty: open picture.html in a browser and read its console" >&2
            exit 1
        fi
    done
done
cp ../../target/dashboard/500-light.png ../../docs/dashboard.png
