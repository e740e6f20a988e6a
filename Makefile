# One word for each daily act. `make` alone lists them.

.DEFAULT_GOAL := help

help: ## list what make can do
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | awk -F':[^#]*## ' '{printf "  %-19s %s\n", $$1, $$2}'

demo: ## a fleet of real processes on an embedded DynamoDB, killed and frozen for half a minute
	go run ./cmd/nodelease demo

test: ## install what the tests need, and run them (Go, a JDK 17, Maven, Python 3.11, npm)
	scripts/test.sh

unit: ## the packages' own tests without whole fleets and simulations: they need nothing but Go, and some seconds
	go test -short -p 4 -skip 'World|ManyAgents|Replays|OnPaper|LoneTask|Fleet|Herd|Model' ./pkg/... ./internal/... ./functions/...

proof: ## what takes longer: the race detector, the simulations, the specification, DynamoDB Local beside the embedded server, a growing stack, other platforms, clients, aws-verify on LocalStack, a release
	scripts/test.sh proof

ci: ## what CI runs: test, proof and lint, each step within its budget
	.ci/run

release-snapshot: ## build what a release has into dist, without signing and upload
	scripts/release.sh snapshot

release: ## sign and upload a release as a draft (CI runs it on a tag; needs IMAGE, cosign and GITHUB_TOKEN)
	scripts/release.sh publish

lint: ## gofmt, vet, golangci-lint, Vale, actionlint
	scripts/lint.sh

vuln: ## known vulnerabilities in what we use (asks Go's vulnerability database, so it is not part of the tests)
	go run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...

bench: ## the generator beside its peers and the machine's floors
	cd bench && go run ./generator

bench-lease: ## leases beside dynamolock, Zeebe's algorithm and etcd: requests, capacity, times
	scripts/dynamodb-local.sh run -- sh -c 'cd bench/lease && go run .'

fleet-page: ## docs/benchmarks-fleet.md anew: fleets of all sizes in virtual time, half an hour
	go test -count=1 ./internal/tenure -run TestFleetsOnPaper -timeout 90m -args -paper $(CURDIR)/docs

bench-clients: ## the clients in Java, Python and Node beside the usual generators of their languages: docs/benchmarks-clients.md
	clients/bench/run.sh

bench-postgres: ## bigint snowflake, UUIDv7 and UUIDv4 as primary keys in a real PostgreSQL: index size and insert rate, ROWS=100000
	scripts/postgres.sh && cd bench && go test -count=1 -timeout 60m -v -run TestPrimaryKeys ./postgres -args -rows $(or $(ROWS),100000)

sim: ## the protocol's state machine under wild clocks: SEEDS=500 STEPS=20000 SEED=1
	go test -count=1 -timeout 60m -run TestModel ./internal/tenure -args -seed $(or $(SEED),1) -seeds $(or $(SEEDS),500) -steps $(or $(STEPS),20000)

fuzz: ## every fuzz target, each for FUZZTIME (10s)
	FUZZTIME=$(or $(FUZZTIME),10s) scripts/fuzz.sh

spec: ## check the specification of proof/spec with TLC (Java, Maven)
	scripts/tlc.sh

docs: ## write the generated parts of the documentation again: floors, flags, mutants, costs, IAM policies, the sidecar's answers, modules by package
	go run ./proof/cmd/mutants -update
	go test -count=1 ./internal/docs -run 'FloorsPage|Consumers' -update
	go test -count=1 ./cmd/nodelease -run FlagsPage -update
	go test -count=1 ./infra -run 'CostPage|PolicyFiles' -update
	go test -count=1 ./internal/app/sidecar -run 'TestContract$$' -update

mutants: ## weaken the protocol's conditions one by one and see which test notices
	go run ./proof/cmd/mutants

functions: ## build the Lambda functions into OUT (dist/functions) for ARCH (arm64)
	GOARCH=$(or $(ARCH),arm64) OUT=$(or $(OUT),dist/functions) scripts/build-functions.sh

invoke: ## run a built function under AWS's emulator: FN=reaper EVENT=events/reaper.json
	scripts/invoke.sh $(or $(FN),$(error FN is bootstrap, reaper or poolmetric)) $(or $(EVENT),events/$(FN).json)

synth: functions ## the CloudFormation templates, into cdk.out
	infra/cdk.sh synth --quiet -c arch=$(or $(ARCH),arm64)

# What differs between deployments: ARCH=amd64, POOL=invoices, SIZE=256.
context = -c arch=$(or $(ARCH),arm64) $(if $(POOL),-c pool=$(POOL)) $(if $(SIZE),-c size=$(SIZE))

diff deploy destroy: functions ## what would change, change it, take it away: the table with its pool, with your AWS credentials (POOL, SIZE, ARCH)
	infra/cdk.sh $@ Nodelease $(context)

template: ## one plain CloudFormation template and the functions' zips for both architectures, into dist/template
	scripts/template.sh $(or $(OUT),dist/template)

deploy-sample: functions ## deploy the sample service on that pool, too (infra/service; it needs Docker, and costs more than its leases)
	infra/cdk.sh deploy NodeleaseService $(context)

localstack: ## start LocalStack without Docker, with DynamoDB Local and the functions as processes
	localstack/install.sh && localstack/start.sh $(or $(PORT),4566)

localstack-test: ## deploy the real stack to a LocalStack of its own, run a fleet on it, take it away
	localstack/test.sh stack

aws-verify: ## the first run on AWS: says what it costs, asks, deploys a throw-away stack, checks it, takes it away (LEFT=1, CLEAN=RUN)
	$(if $(CLEAN)$(LEFT),,scripts/template.sh dist/template)
	cd proof/awsverify && go run . $(if $(LEFT),-left) $(if $(CLEAN),-clean $(CLEAN))

ui: ## the tests of the page, in a real Chromium
	cmd/nodelease/internal/ui/e2e/test.sh

picture: ## make the pictures of the page in docs/img again, from the running demo and the tests
	PICTURES=$(CURDIR)/docs/img cmd/nodelease/internal/ui/e2e/test.sh

layouts: ## make 32 pictures of the page in dist/layouts: four sizes of pool and of window, both themes
	LAYOUTS=$(CURDIR)/dist/layouts ONLY=layout cmd/nodelease/internal/ui/e2e/test.sh

trace: ## measure the page in a DevTools trace of Chromium: 65,536 node IDs under churn, ten minutes (MINUTES=3 is shorter)
	cmd/nodelease/internal/ui/e2e/test.sh trace

fmt: ## format the Go code
	gofmt -w $$(git ls-files '*.go')

.PHONY: help demo test unit proof ci release-snapshot release lint bench bench-lease fleet-page bench-clients bench-postgres vuln sim fuzz spec docs mutants functions invoke synth template diff deploy deploy-sample destroy localstack localstack-test aws-verify ui picture layouts trace fmt
