// Package tenure is the functional core of an agent: what the holder of a lease may
// believe (Term), which groups a claimant searches (Search, Outlook), the effect of a
// change of the width on a holder, and the durations of a lease (Timings). It has no
// clock, no lock and no request: the agent of pkg/lease provides those.
//
// In the tests, two simulations provide their own. The model (model_*_test.go) takes one
// step at a time in any order; the paper (paper_*_test.go) runs whole fleets on a table
// with DynamoDB's limits. Both run the same code as the agent, not a copy of it.
package tenure
