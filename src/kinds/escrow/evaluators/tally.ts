// Turns votes into a verdict: one vote for a single rule, n of m for a quorum. Pure.
import type { Rule } from '../terms.ts';
import { reasonText, type Verdict, type Vote } from '../work.ts';

/** Returns undefined until enough members approve or too many reject. */
export function tally(rule: Rule, votes: readonly Vote[], at: number): Verdict | undefined {
  if (rule.type !== 'quorum') {
    const vote = votes[0];
    if (!vote) return undefined;
    const { member: _, ...verdict } = vote;
    return verdict;
  }
  const approvals = votes.filter(({ outcome }) => outcome === 'approved');
  const rejections = votes.filter(({ outcome }) => outcome === 'rejected');
  const checks = votes.flatMap((vote) => [
    {
      criterion: `vote of member ${vote.member + 1}`,
      met: vote.outcome === 'approved',
      evidence: reasonText(vote),
    },
    ...vote.checks,
  ]);
  const count = `${approvals.length} of ${rule.members.length} approve, ${rule.need} needed`;
  if (approvals.length >= rule.need) {
    return { outcome: 'approved', reason: `quorum: ${count}`, by: 'rule', at, checks };
  }
  if (rejections.length > rule.members.length - rule.need) {
    return { outcome: 'rejected', reason: `quorum: ${count}`, by: 'rule', at, checks };
  }
  return undefined;
}
