// Escrow jobs as a kind. Operations move them, so there is no `run`.
import { AppError } from '../../errors.ts';
import type { Job } from '../../jobs/job.ts';
import type { Kind } from '../../jobs/kind.ts';
import type { Caller } from '../../operation.ts';
import { isRecord } from '../../runtime/json.ts';
import { quoted } from '../../runtime/untrusted-text.ts';
import { viewerOf, type EscrowDeps } from './deps.ts';
import { formatUnits } from './money.ts';
import type { Wallet } from './store/rows.ts';
import { evaluatorsOf, rolesOf } from './terms.ts';
import { turnWords, viewFields } from './view.ts';
import { listenerOf, webhookFacts } from './webhooks.ts';
import { momentOf, type Work } from './work.ts';

/** Jobs are cached because checking the version is cheaper than decoding the row again. */
const maxCachedWorks = 1000;

interface CachedWork {
  work: Work;
  /** The view for callers without a role in the job. */
  publicView?: { isOverdue: boolean; fields: Record<string, unknown> };
}

/** `deps` is a function because the kind is registered before its dependencies exist. */
export function escrowKind(deps: () => EscrowDeps): Kind {
  const cache = new Map<string, CachedWork>();
  const findWork = (job: Job) => deps().store.works.findWork(job.id).catch(orUndecodable);
  const workOf = async (job: Job): Promise<Work | undefined> => {
    const { store } = deps();
    const cached = cache.get(job.id);
    if (cached && (await store.works.workVersion(job.id)) === cached.work.version)
      return cached.work;
    const work = await findWork(job);
    if (!work) return undefined;
    if (cache.size >= maxCachedWorks) cache.clear();
    cache.set(job.id, { work });
    return work;
  };
  return {
    name: 'escrow',
    subject: 'wallet',
    allows: "spend from the owner's wallets, and hire and work for other agents",
    belongsTo: async (job, subject) => {
      const work = await findWork(job);
      return work !== undefined && rolesOf(work.terms, subject.slice('wallet:'.length)).size > 1;
    },
    dispatched: false,
    retryable: false,
    cancellable: false,
    exemptFromRetention: true,
    capacity: () => 0,
    summary: (job) => {
      const { title, budget } = job.input as { title: string; budget: string };
      const agreed = job.facts.budget ?? budget;
      return `${quoted(title)} (budget ${formatUnits(Number(agreed))})`;
    },
    // The summary row has no reader: the client's name and tags are quoted for everybody.
    line: ({ name, tags }) => ({
      ...(name === null ? {} : { name: quoted(name) }),
      ...(tags.length > 0 ? { tags: tags.map(quoted) } : {}),
    }),
    inputFor: ({ owner, input }, caller) => {
      if (owner === caller?.owner || !isRecord(input)) return input;
      return { ...input, title: quoted(String(input.title)) };
    },
    view: async (job, caller) => {
      const { clock } = deps();
      const work = await workOf(job);
      if (!work) return {};
      const wallet = await walletOf(deps(), caller, work.terms);
      const now = clock.now();
      if (wallet !== undefined) return viewFields(job, work, await viewerOf(deps(), wallet));
      // All callers without a role see the same view until the job or its deadline changes. A pause does not affect it.
      const isOverdue = momentOf(work, now) === 'after';
      const cached = cache.get(job.id);
      if (cached?.work === work && cached.publicView?.isOverdue === isOverdue)
        return cached.publicView.fields;
      const fields = viewFields(job, work, { now, paused: false });
      if (cached?.work === work) cached.publicView = { isOverdue, fields };
      return fields;
    },
    describe: turnWords,
    audience: async (job) => audienceOf(deps().store, await findWork(job)),
    webhookFacts: async (job, listener) =>
      webhookFacts(deps().store, { work: await findWork(job), listener }),
    readableBy: async (job, caller) => {
      const work = await findWork(job);
      return work !== undefined && (await walletOf(deps(), caller, work.terms)) !== undefined;
    },
  };
}

/** The owners of all wallets that take part in the job, and the webhooks of these wallets. */
async function audienceOf(store: EscrowDeps['store'], work: Work | undefined): Promise<string[]> {
  if (!work) return [];
  const { dispute } = work.terms;
  const arbiters = dispute ? [dispute.arbiter] : [];
  const parties = [work.client, work.provider, ...evaluatorsOf(work.terms), ...arbiters];
  const wallets = await Promise.all([...new Set(parties)].map((id) => store.findWallet(id)));
  return wallets.flatMap((wallet) => (wallet ? [wallet.owner, listenerOf(wallet.id)] : []));
}

/** A job whose terms cannot be decoded is shown with its core fields only. */
function orUndecodable(error: unknown): undefined {
  if (error instanceof AppError && error.data?.undecodable) return undefined;
  throw error;
}

/** The caller's wallet that has a role in the job. Among several, prefers the client: its texts are the caller's own. */
async function walletOf(
  deps: EscrowDeps,
  caller: Caller | undefined,
  terms: Parameters<typeof rolesOf>[0],
): Promise<Wallet | undefined> {
  if (!caller) return undefined;
  const wallets = await deps.wallets.list(caller);
  const parties = wallets.filter(({ id }) => rolesOf(terms, id).size > 1);
  return parties.find(({ id }) => rolesOf(terms, id).has('client')) ?? parties[0];
}
