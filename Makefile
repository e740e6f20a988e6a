# One target for each everyday task. `make` alone lists them.

.DEFAULT_GOAL := help

help: ## list all targets
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | awk -F':[^#]*## ' '{printf "  %-19s %s\n", $$1, $$2}'

demo: ## a fleet of real processes on an embedded DynamoDB, killed and frozen for half a minute
	go run ./cmd/nodelease demo

test: ## run the tests, and install their tools first (needs Go, a JDK 17, Maven, Python 3.11, npm)
	scripts/test.sh

unit: ## run the unit tests only, without fleets and simulations: takes seconds and needs only Go
	go test -short -p 4 -skip 'World|ManyAgents|Replays|OnPaper|LoneTask|Fleet|Herd|Model|ShortWorkers|MassKills|PaperIsLike' ./pkg/... ./internal/... ./functions/... $(addprefix ./proof/internal/,clocks copies growth herds naps outages)

proof: ## run the longer tests: race detector, simulations, specification, DynamoDB Local against the embedded server, a growing stack, other platforms, clients, aws-verify on LocalStack, a release
	scripts/test.sh proof

ci: ## run what CI runs: test, proof and lint, each step within its budget
	.ci/run

release-snapshot: ## build a release's files into dist, without signing and uploading them
	scripts/release.sh snapshot

release: ## sign and upload a release as a draft (CI runs it on a tag; needs IMAGE, cosign and GITHUB_TOKEN)
	scripts/release.sh publish

lint: ## run gofmt, vet, golangci-lint, Vale, actionlint
	scripts/lint.sh

vuln: ## list known vulnerabilities of dependencies (asks Go's vulnerability database, so it is not part of the tests)
	go run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...

bench: ## compare the generator with its peers and the machine's limits
	cd bench && go run ./generator

bench-lease: ## compare leases with dynamolock, Zeebe's algorithm and etcd: requests, capacity, times
	scripts/dynamodb-local.sh run -- sh -c 'cd bench/lease && go run .'

fleet-page: ## simulate fleets of all sizes and write docs/benchmarks-fleet.md: half an hour
	go test -count=1 ./internal/tenure -run TestFleetsOnPaper -timeout 90m -args -paper "$(CURDIR)/docs"

bench-clients: ## compare the Java, Python and Node clients with the usual generators of their languages: docs/benchmarks-clients.md
	clients/bench/run.sh

bench-postgres: ## compare bigint snowflakes, UUIDv7 and UUIDv4 as primary keys in a real PostgreSQL: index size and insert rate, ROWS=100000
	scripts/postgres.sh && cd bench && go test -count=1 -timeout 60m -v -run TestPrimaryKeys ./postgres -args -rows $(or $(ROWS),100000)

sim: ## simulate the protocol's state machine with faulty clocks: SEEDS=500 STEPS=20000 SEED=1
	go test -count=1 -timeout 60m -run TestModel ./internal/tenure -args -seed $(or $(SEED),1) -seeds $(or $(SEEDS),500) -steps $(or $(STEPS),20000)

fuzz: ## run every fuzz target for FUZZTIME (10s)
	FUZZTIME=$(or $(FUZZTIME),10s) scripts/fuzz.sh

spec: ## check the specification of proof/spec with TLC (Java, Maven)
	scripts/tlc.sh

api: ## record the exported API in api/go.txt, and its changes since the last release in api/apidiff.txt
	go test -count=1 ./internal/docs -run 'TestAPIBaseline$$' -update
	cd release && go test -count=1 . -run 'TestAPIChanges$$' -update

docs: ## regenerate the generated parts of the documentation: floors, flags, mutants, costs, IAM policies, the sidecar's answers, modules by package
	go run ./proof/cmd/mutants -update
	go test -count=1 ./internal/docs -run 'FloorsPage|Consumers' -update
	go test -count=1 ./cmd/nodelease -run FlagsPage -update
	go test -count=1 ./infra -run 'CostPage|PolicyFiles' -update
	go test -count=1 ./internal/app/sidecar -run 'TestContract$$' -update

mutants: ## weaken the protocol's conditions one by one, and show which test fails
	go run ./proof/cmd/mutants

functions: ## build the Lambda functions into OUT (dist/functions) for ARCH (arm64)
	GOARCH=$(or $(ARCH),arm64) OUT=$(or $(OUT),dist/functions) scripts/build-functions.sh

invoke: ## run a built function under AWS's emulator: FN=reaper EVENT=events/reaper.json
	scripts/invoke.sh $(or $(FN),$(error FN is bootstrap, reaper or poolmetric)) $(or $(EVENT),events/$(FN).json)

synth: functions ## write the CloudFormation templates to cdk.out
	infra/cdk.sh synth --quiet -c arch=$(or $(ARCH),arm64)

# The settings that differ between deployments, such as ARCH=amd64, POOL=invoices, SIZE=256.
context = -c arch=$(or $(ARCH),arm64) $(if $(POOL),-c pool=$(POOL)) $(if $(SIZE),-c size=$(SIZE))

diff deploy destroy: functions ## show changes, deploy, or remove the stack, whose table stays, with your AWS credentials (POOL, SIZE, ARCH)
	infra/cdk.sh $@ Nodelease $(context)

template: ## write one plain CloudFormation template and the functions' zips for both architectures to dist/template
	scripts/template.sh $(or $(OUT),dist/template)

deploy-sample: functions ## also deploy the sample service on that pool (infra/service; needs Docker, and costs more than its leases)
	infra/cdk.sh deploy NodeleaseService $(context)

localstack: ## start LocalStack without Docker, with DynamoDB Local and the functions as processes
	localstack/install.sh && localstack/start.sh $(or $(PORT),4566)

localstack-test: ## deploy the real stack to its own LocalStack, run a fleet on it, remove it
	localstack/test.sh stack

aws-verify: ## check a throw-away stack on AWS: show the cost, ask, deploy, check, remove (LEFT=1, CLEAN=RUN)
	$(if $(CLEAN)$(LEFT),,scripts/template.sh dist/template)
	cd proof/awsverify && go run . $(if $(LEFT),-left) $(if $(CLEAN),-clean $(CLEAN))

ui: ## test the web UI in a real Chromium
	cmd/nodelease/internal/ui/e2e/test.sh

picture: ## update the screenshots of the web UI in docs/img, from the running demo and the tests
	PICTURES="$(CURDIR)/docs/img" cmd/nodelease/internal/ui/e2e/test.sh

layouts: ## take 32 screenshots of the web UI in dist/layouts: four sizes of pool and of window, both themes
	LAYOUTS="$(CURDIR)/dist/layouts" ONLY=layout cmd/nodelease/internal/ui/e2e/test.sh

trace: ## measure the web UI in a DevTools trace of Chromium: 65,536 node IDs under churn, ten minutes (MINUTES=3 for less)
	cmd/nodelease/internal/ui/e2e/test.sh trace

fmt: ## format the Go code
	gofmt -w $$(git ls-files '*.go')

.PHONY: help api demo test unit proof ci release-snapshot release lint bench bench-lease fleet-page bench-clients bench-postgres vuln sim fuzz spec docs mutants functions invoke synth template diff deploy deploy-sample destroy localstack localstack-test aws-verify ui picture layouts trace fmt
