// Brings verdicts to jobs: a person's vote through an operation, an automatic rule's by itself as soon as something is
// delivered. What is tried and has no verdict yet is tried again until the evaluation's deadline.
import { AppError } from '../../../errors.ts';
import type { Actor, Escrow } from '../escrow.ts';
import { membersOf, type Rule } from '../terms.ts';
import type { Check, Vote, Work } from '../work.ts';
import type { RuleRunner } from './runner.ts';
import { tally } from './tally.ts';

export interface PersonalVerdict {
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

  /** Before a delivery counts: one that the rule could never accept is refused, and the provider may deliver again. */
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
      `The rule of this job can never accept that delivery: ${problems.find(Boolean)}.`,
      { hint: 'Nothing was submitted. Send content, or an http(s) uri with contentHash.' },
    );
  }

  /** At the start of this node: what it had in hand when it died is due now. */
  async releaseLeases(): Promise<void> {
    const { store, clock } = this.escrow.parts;
    await store.store.commit([store.works.releaseLeases(this.node, clock.now())]);
  }

  /** The decision of a wallet: of the evaluator, of a quorum's member, or of the client about its own money. */
  async decide(jobId: string, wallet: string, given: PersonalVerdict): Promise<Work> {
    const { store, clock } = this.escrow.parts;
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

  /** A vote that decides nothing yet is only recorded. */
  private async vote(jobId: string, actor: Actor, vote: Vote): Promise<Work> {
    const { store } = this.escrow.parts;
    for (;;) {
      const work = await store.works.work(jobId);
      if (work.state.votes.some(({ member }) => member === vote.member)) {
        throw new AppError('wrongStage', 'This member of the quorum has voted already.');
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

  /** Makes a due evaluation this node's for a while, its deadline at most: that is somebody else's to look at. */
  async take(work: Work): Promise<boolean> {
    const { store, clock, settings } = this.escrow.parts;
    if (work.phase !== 'submitted' || !work.state.submission) return false;
    const until = Math.min(clock.now() + settings.evaluationLeaseMs, work.deadlineAt!);
    const lease = store.works.lease(work.jobId, work.nextAt!, until, this.node);
    return (await store.store.commit([lease])).applied;
  }

  /** One turn for a job that was taken: every automatic member without a vote is tried. */
  async run(work: Work): Promise<void> {
    const { store, clock, settings } = this.escrow.parts;
    const submission = work.state.submission!;
    const deliverable = await store.works.deliverable(work.jobId, submission.n);
    if (!deliverable) return;
    const last = work.state.tries + 1 >= settings.evaluationTriesMax;
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
    await this.again(work, waiting, tried);
  }

  /** Sets the next turn: soon while something waits, else at the deadline. */
  private async again(work: Work, waiting: string, tried: boolean): Promise<void> {
    const { clock, settings } = this.escrow.parts;
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
