# Sourced by test.sh and bench.sh: installs what they need from PyPI and npm, with recorded
# checksums, into .cache. Sets $cache, $venv (Python, with a JDK 21) and $npm.
cache=$(mkdir -p ../.cache/clients && cd ../.cache/clients && pwd)

venv=$cache/venv-$(cksum <python/tests/requirements.txt | cut -d' ' -f1)
if [ ! -e "$venv/done" ]; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" -q --disable-pip-version-check install --require-hashes --no-deps -r python/tests/requirements.txt
	touch "$venv/done"
fi

npm=$cache/npm-$(cksum <javascript/test/types/package-lock.json | cut -d' ' -f1)
if [ ! -e "$npm/done" ]; then
	rm -rf "$npm"
	mkdir -p "$npm"
	cp javascript/test/types/package.json javascript/test/types/package-lock.json "$npm"
	(cd "$npm" && npm ci --loglevel=error --no-audit --no-fund --ignore-scripts >/dev/null)
	touch "$npm/done"
fi
