package main

const infraOwn = "./infra"

// The mutants of the deployment, of examples, and of this command: of refusals and of waits.
var infraMutants = []mutant{
	{"a table that lists itself counts as replicated", store, `if own == "" || aws.ToString(r.RegionName) != own {`, `if own == "" || aws.ToString(r.RegionName) != own || own != "" {`, leaseOwn},
	{"the synthesis lets an old floor rename a pool", "infra/nodepool/names.go", `p.Floor.After(time.Now().Add(-oldFloor))`, `!p.Floor.IsZero()`, infraOwn},
	{"an app that a floor let through is refused without a warning", "infra/nodepool/names.go", `awscdk.Annotations_Of(n).AddWarningV2(jsii.String("nodelease:names:"+p.Name)`, `awscdk.Annotations_Of(n).AddInfoV2(jsii.String("nodelease:names:"+p.Name)`, infraOwn},
	{"the alarm on expired leases needs more than a small fleet holds", "infra/nodepool/alarms.go", `float64(p.props.expected())`, `float64(p.props.usable())`, infraOwn},
	{"the alarm on expired leases does not say of what its share is", "infra/nodepool/alarms.go", `if p.props.Expect > 0 {`, `if p.props.Expect < 0 {`, infraOwn},
	{"two outputs have one key", "infra/nodepool/outputs.go", `other.outputPrefix() != n.outputPrefix()`, `n.outputPrefix() != ""`, infraOwn},
	{"an alarm of a pool is missing where names of pools are compared", "infra/nodepool/validate.go", `"braked", "expired", "no-data"}`, `"braked", "no-data"}`, infraOwn},
	{"an alarm of a pool and a part of another have one ID", "infra/nodepool/validate.go", `if slices.Contains(poolPrefixes, pool.Name) {`, `if slices.Contains(poolPrefixes, "") {`, infraOwn},
	{"a pool of one node ID has an alarm for its holder", "infra/nodepool/alarms.go", `if p.props.usable() == 1 {`, `if p.props.usable() == 0 {`, infraOwn},
	{"a plain template of one node ID has an alarm for its holder", "infra/template.go", `resource["Condition"] = "Several"`, `_ = id`, infraOwn},
	{"services do not wait for the seed", "infra/nodepool/attach.go", `task.Node().DefaultChild().Node().AddDependency(seed)`, `_ = seed`, infraOwn},
	{"only one container of a task counts", "infra/nodepool/attach.go", `append(p.holders, c)`, `append(p.holders[:0], c)`, infraOwn},
	{"autoscaling of another stage counts", "infra/nodepool/capacity.go", `*awscdk.Stack_Of(target).Node().Path() != *stack.Node().Path()`, `*awscdk.Stack_Of(target).Node().Path() == ""`, infraOwn},
	{"a daemon service counts as one task", "infra/nodepool/capacity.go", `*strategy == "DAEMON"`, `*strategy == ""`, infraOwn},
	{"a second sidecar ends the app", "infra/nodepool/sidecar.go", `other != nil {`, `other != nil && s.Port < 0 {`, infraOwn},
	{"an attached sidecar is in a variable that no client reads", "infra/nodepool/sidecar.go", `jsii.String("NODELEASE_SIDECAR")`, `jsii.String("NODELEASE_URL")`, infraOwn},
	{"a sidecar is attached with limits below its TTL", "infra/nodepool/sidecar.go", `range limits.Complete() {`, `range limits.Complete()[:0] {`, infraOwn},
	{"an example asks for a Region on this machine", "examples/promises/main.go", `{ o.HTTPClient = d })`, `{ o.HTTPClient, o.Region, o.BaseEndpoint = d, "", nil })`, "./examples/promises"},
	{"a name of no mutant passes", "proof/cmd/mutants/main.go", `return strings.Contains(m.name, only) }`, `return only != m.name }`, "./proof/cmd/mutants"},
	{"an import that a signal cut off looks complete", "examples/importer/main.go", `return errStopped`, `return context.Cause(ctx)`, "./examples/importer"},
	{"a resting pool counts as claimable", "internal/app/handler/poolmetric.go", `s.Free+s.Expired)`, `s.Free+s.Expired+s.Cooling)`, "./internal/app/handler"},
	{"the alarm running-out always needs ten measurements", "infra/nodepool/alarms.go", `max(1, min(10, p.ExhaustionAlarm/(2*p.Every)))`, `10`, infraOwn},
	{"a grant that CDK dropped passes", "infra/nodepool/grants.go", `if p.granted[principal] || isRole && hasPolicy(role) {`, `if p.granted[principal] || isRole && (hasPolicy(role) || isRole) {`, infraOwn},
	{"zips of another architecture pass", "infra/nodepool/zips.go", `if program.Machine != machine {`, `if false {`, infraOwn},
	{"a table with a snapshot is deployed", "infra/nodepool/validate.go", `	switch p.RemovalPolicy {
	case `, `	switch p.RemovalPolicy {
	case awscdk.RemovalPolicy_SNAPSHOT, `, infraOwn},
	{"a table's name that DynamoDB refuses is deployed", "infra/nodepool/validate.go", `tableNames.MatchString(p.TableName) {`, `p.TableName != "" {`, infraOwn},
	{"a protected table is to be destroyed", "infra/nodepool/validate.go", `if p.AllowDeletion || p.RemovalPolicy == awscdk.RemovalPolicy_RETAIN {`, `if p.AllowDeletion || p.RemovalPolicy != "" || p.RemovalPolicy == awscdk.RemovalPolicy_RETAIN {`, infraOwn},
	{"another table's name passes at synth", "infra/nodepool/names.go", `slices.Contains(was.Pools, p.Name) && was.Table == n.props.TableName`, `slices.Contains(was.Pools, p.Name)`, infraOwn},
	{"two tables of one name pass", "infra/nodepool/names.go", `*s.Account() == *stack.Account() && *s.Region() == *stack.Region()`, `*s.Account() != *stack.Account()`, infraOwn},
	{"Regions of one continent pass", "infra/nodepool/validate.go", `if set != nil && !slices.Contains(set, r) {`, `if set != nil && set[0][:2] != r[:2] {`, infraOwn},
	{"a world has a mistyped part", "proof/internal/sim/parts.go", `	return left, err
}

// ParseParts`, `	_ = err
	return left, nil
}

// ParseParts`, "./proof/internal/sim"},
}
