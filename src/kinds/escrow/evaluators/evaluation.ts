// Applies verdicts to jobs: a person's vote through an operation, an automatic rule's as soon as something is delivered.
// Rules without a verdict are tried again until the evaluation deadline.
import { AppError } from '../../../errors.ts';
import type { Actor, Escrow } from '../escrow.ts';
import { membersOf, type Rule } from '../terms.ts';
import type { Check, Vote, Work } from '../work.ts';
import type { RuleRunner } from './runner.ts';
import { tally } from './tally.ts';

interface PersonalVerdict {
  outcome: 'approved' | 'rejected';
  reason: string;
  checks: Check[];
}

export class Evaluation {
  private readonly escrow: Escrow;
  private readonly rules: RuleRunner;
  private readonly node: string;

  constructor(escrow: Escrow, rules: RuleRunner, node: string) {
    this.escrow = escrow;
    this.rules = rules;
    this.node = node;
  }

  /** Refuses a delivery that the rule could never accept, before it counts, so that the provider can deliver again. */
  async refuseUnusable(
    { terms }: Work,
    delivery: { content?: string | undefined; uri?: string | undefined },
  ): Promise<void> {
    const rule = terms.evaluation;
    const members = membersOf(rule);
    const problems = await Promise.all(
      members.map((member) => this.rules.problemWith(member, delivery)),
    );
    const usable = problems.filter((problem) => problem === undefined).length;
    if (usable >= (rule.type === 'quorum' ? rule.need : 1)) return;
    throw new AppError(
      'deliveryCannotPass',
      `The rule of this job can never accept this delivery: ${problems.find(Boolean)}.`,
      {
        hint: 'Nothing was submitted. Send content that the rule can read, or an http(s) uri with contentHash.',
      },
    );
  }

  /** On startup: everything that this node had leased when it died is due now. */
  async releaseLeases(): Promise<void> {
    const { store, clock } = this.escrow.deps;
    await store.store.commit([store.works.releaseLeases(this.node, clock.now())]);
  }

  /** The decision of a wallet: the evaluator, a quorum member, or the client for its own money. */
  async decide(jobId: string, wallet: string, given: PersonalVerdict): Promise<Work> {
    const { store, clock } = this.escrow.deps;
    const work = await store.works.work(jobId);
    const action = given.outcome === 'approved' ? 'approve' : 'reject';
    const verdict = { ...given, by: wallet, at: clock.now() };
    const member = memberOf(work.terms.evaluation, wallet, work.client);
    const release = action === 'approve' && wallet === work.client;
    const actor: Actor = { wallet };
    if (member === undefined || release || work.phase !== 'submitted') {
      return this.escrow.act(jobId, { actor, action, verdict, reason: given.reason });
    }
    return this.vote(jobId, actor, { ...verdict, member });
  }

  /** Records a vote that does not decide yet. */
  private async vote(jobId: string, actor: Actor, vote: Vote): Promise<Work> {
    const { store } = this.escrow.deps;
    for (;;) {
      const work = await store.works.work(jobId);
      if (work.state.votes.some(({ member }) => member === vote.member)) {
        throw new AppError('wrongStage', 'This quorum member has already voted.');
      }
      const votes = [...work.state.votes, vote];
      const verdict = tally(work.terms.evaluation, votes, vote.at);
      const reason = verdict?.reason ?? vote.reason;
      if (verdict) {
        const action = verdict.outcome === 'approved' ? 'approve' : 'reject';
        return this.escrow.act(jobId, { actor, action, verdict, votes, reason });
      }
      let fits = true;
      const noted = await this.escrow.note(jobId, (present) => {
        fits = present.version === work.version;
        if (!fits) return undefined;
        const data = { member: vote.member + 1, outcome: vote.outcome, by: vote.by };
        const state = { ...present.state, votes };
        return { work: { ...present, state, updatedAt: vote.at }, event: { type: 'voted', data } };
      });
      if (fits) return noted;
    }
  }

  /** Leases a due evaluation to this node, at most until its deadline. `renew` extends the lease while the evaluation runs. */
  async take(work: Work): Promise<boolean> {
    const { store, clock, settings } = this.escrow.deps;
    if (work.phase !== 'submitted' || !work.state.submission) return false;
    const until = Math.min(clock.now() + settings.evaluationLeaseMs, work.deadlineAt!);
    const lease = store.works.lease(work.jobId, work.nextAt!, until, this.node);
    return (await store.store.commit([lease])).applied;
  }

  /** Extends the leases of running evaluations, so that no other node starts them again. */
  async renew(jobIds: Iterable<string>): Promise<void> {
    const { store, clock, settings } = this.escrow.deps;
    const until = clock.now() + settings.evaluationLeaseMs;
    const steps = [...jobIds].map((jobId) => store.works.renewLease(jobId, until, this.node));
    if (steps.length > 0) await store.store.commit(steps);
  }

  /** One turn for a leased job: tries every automatic member without a vote. */
  async run(work: Work): Promise<void> {
    const { store, clock, settings } = this.escrow.deps;
    const submission = work.state.submission!;
    const deliverable = await store.works.deliverable(work.jobId, submission.n);
    if (!deliverable) return;
    const last = work.state.tries + 1 >= settings.maxEvaluationTries;
    let waiting = '';
    let tried = false;
    for (const [member, rule] of membersOf(work.terms.evaluation).entries()) {
      if (rule.type === 'manual' || work.state.votes.some((v) => v.member === member)) continue;
      const attempt = work.state.tries;
      const { jobId } = work;
      const finding = await this.rules.run(rule, { jobId, deliverable, attempt, last });
      if (finding.outcome === 'later') {
        waiting = finding.reason;
        tried ||= !finding.waits;
        continue;
      }
      const vote: Vote = { ...finding, member, by: 'rule', at: clock.now() };
      const after = await this.vote(work.jobId, { system: true }, vote);
      if (after.phase !== 'submitted') return;
    }
    await this.scheduleNext(work, waiting, tried);
  }

  /** Schedules the next turn: soon while something is pending, otherwise at the deadline. */
  private async scheduleNext(work: Work, waiting: string, tried: boolean): Promise<void> {
    const { clock, settings } = this.escrow.deps;
    await this.escrow.note(work.jobId, (present) => {
      if (present.phase !== 'submitted') return undefined;
      const tries = present.state.tries + (tried ? 1 : 0);
      const delay = tried ? settings.evaluationRetryMs * 2 ** (tries - 1) : settings.sweepMs;
      const soon = Math.min(clock.now() + delay, present.deadlineAt!);
      const nextAt = waiting ? soon : present.deadlineAt;
      const state = { ...present.state, tries, lastTry: waiting || null };
      return { work: { ...present, nextAt, state } };
    });
  }
}

function memberOf(rule: Rule, wallet: string, client: string): number | undefined {
  const index = membersOf(rule).findIndex(
    (member) => member.type === 'manual' && (member.wallet ?? client) === wallet,
  );
  return index < 0 ? undefined : index;
}
