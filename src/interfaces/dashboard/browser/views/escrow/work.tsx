// One escrow job: what was agreed and delivered, who must act, the verdict, the money, and what each role may do.
import { units } from '../../amounts.ts';
import { get, Problem } from '../../api.ts';
import { Back, NotLoaded } from '../../parts/detail.tsx';
import { Facts, type Fact } from '../../parts/facts.tsx';
import { Json } from '../../parts/json.tsx';
import { ofJob, useLive } from '../../parts/live.ts';
import { useLoaded } from '../../parts/loading.ts';
import { Mark } from '../../parts/mark.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { ProblemBox } from '../../parts/problem.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { hrefOf } from '../../router.ts';
import { mayRun } from '../../session.ts';
import { RoleActions, type Role } from './actions.tsx';
import { Deadline } from './deadline.tsx';
import { isOver } from './load.ts';
import { Steps } from './steps.tsx';
import { StageMark } from './stage.tsx';
import { unfenced, walletName, type Wallet, type Work } from './types.ts';

const maxWallets = 12;

interface Spec {
  spec: string;
  description: string;
  wallet?: string;
  yourRoles?: string[];
  availableActions?: string[];
  deliverable?: { hash: string; uri?: string; content?: string };
}

interface Posting {
  kind: string;
  from: string;
  to: string;
  amount: string;
  at: string;
  hash: string;
}

interface Loaded {
  work: Work;
  wallets: Wallet[];
  spec: Spec;
  roles: Role[];
  postings: Posting[];
}

const list = { to: '/escrow', label: 'Escrow' };

export function WorkView({ id }: { id: string }) {
  const { value, error, reload } = useLoaded(id, (signal) => load(id, signal));
  useLive(reload, { isMine: ofJob(id), everyMs: 150 });
  if (!value) return <NotLoaded {...list} error={error} onRetry={reload} />;
  const { work, wallets, spec, roles, postings } = value;
  return (
    <section class="view" aria-labelledby="work-title">
      <Back {...list} />
      <header class="view-title">
        <StageMark work={work} />
        <h1 id="work-title">{work.name ?? id}</h1>
        <b class="amount">
          {work.amount} {work.currency}
        </b>
      </header>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      <Facts facts={factsOf(work, wallets)} />
      {isOver(work) || work.onSilence === undefined ? null : <p class="dim">{work.onSilence}</p>}
      {work.risk === undefined ? null : <p class="notice">{work.risk}</p>}
      {mayRun.value
        ? roles.map((role) => (
            <RoleActions key={role.wallet.id} work={work} role={role} onChanged={reload} />
          ))
        : null}
      <div class="columns">
        <section class="panel box">
          <h2>Terms</h2>
          <Foreign text={spec.description} />
          <Milestones work={work} />
          <details class="folded">
            <summary>Complete document</summary>
            <Json value={pretty(unfenced(spec.spec))} />
          </details>
        </section>
        <section class="panel box">
          <h2>Timeline</h2>
          <Steps work={work} wallets={wallets} />
        </section>
        <Delivery work={work} spec={spec} />
        <Verdict work={work} wallets={wallets} />
      </div>
      <section class="group">
        <h2>Ledger postings</h2>
        {postings.length === 0 ? (
          <p class="dim">No money moved in the ledger.</p>
        ) : (
          <Table
            caption="Ledger postings"
            rows={postings}
            columns={postingColumns(wallets)}
            keyOf={({ hash }) => hash}
          />
        )}
      </section>
    </section>
  );
}

async function load(id: string, signal: AbortSignal): Promise<Loaded> {
  const path = `api/work/${encodeURIComponent(id)}`;
  const [work, { wallets }] = await Promise.all([
    get<Work>(`api/jobs/${encodeURIComponent(id)}`, {}, signal),
    get<{ wallets: Wallet[] }>('api/wallets', {}, signal),
  ]);
  const parties = new Set([work.client, work.provider, work.evaluator]);
  // An arbiter or a member of a quorum is not named in the job.
  const isHidden = work.dispute !== undefined || work.evaluation.rule === 'quorum';
  const own = wallets.filter((wallet) => isHidden || parties.has(wallet.id)).slice(0, maxWallets);
  const specs = await Promise.all(
    own.map((wallet) => get<Spec>(`${path}/spec`, { wallet: wallet.id }, signal)),
  );
  const roles = specs.flatMap(({ yourRoles = [], availableActions = [] }, i) =>
    yourRoles.length === 0
      ? []
      : [{ wallet: own[i]!, roles: yourRoles, actions: availableActions }],
  );
  const reader = roles[0]?.wallet.id;
  const spec = specs.find(({ wallet }) => wallet !== undefined && wallet === reader);
  const { postings } = await get<{ postings: Posting[] }>(
    `${path}/postings`,
    { wallet: reader },
    signal,
  ).catch((error: unknown) => {
    // Others see a public job without its postings.
    if (error instanceof Problem && error.status === 403) return { postings: [] };
    throw error;
  });
  return {
    work,
    wallets,
    roles,
    postings,
    spec: spec ?? (await get<Spec>(`${path}/spec`, {}, signal)),
  };
}

function factsOf(work: Work, wallets: readonly Wallet[]): (Fact | undefined)[] {
  const who = (id: string) => <code title={id}>{walletName(wallets, id)}</code>;
  const [role, wallet] = (work.nextActor ?? '').split(' ');
  return [
    ['Client', who(work.client)],
    ['Provider', who(work.provider)],
    work.evaluator === undefined ? undefined : ['Evaluator', who(work.evaluator)],
    ['Accepted by', work.evaluation.rule],
    work.held === undefined ? undefined : ['Held', `${units(work.held)} ${work.currency}`],
    work.nextActor === undefined
      ? undefined
      : [
          'Next',
          <b>
            {role} {wallet === undefined ? '' : walletName(wallets, wallet)}
          </b>,
        ],
    isOver(work) || work.deadline === undefined
      ? undefined
      : ['Deadline', <Deadline at={work.deadline} />],
    work.settling === undefined ? undefined : ['Settling', work.settling],
    ['Settlement', work.settlement],
    ['Job', <a href={hrefOf(`/jobs/${work.id}`)}>{work.id}</a>],
  ];
}

/** Text that another party wrote. */
function Foreign({ text }: { text: string }) {
  return (
    <div class="foreign">
      <Markdown text={unfenced(text)} />
    </div>
  );
}

function Milestones({ work: { milestones = [], currency } }: { work: Work }) {
  if (milestones.length === 0) return null;
  return (
    <ol class="milestones">
      {milestones.map(({ title, amount, state }, i) => (
        <li key={i}>
          <Mark
            tone={state === 'released' ? 'ok' : state === 'current' ? 'run' : 'off'}
            word={state}
          />{' '}
          {title}{' '}
          <span class="dim">
            {units(amount)} {currency}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Delivery({ work, spec: { deliverable } }: { work: Work; spec: Spec }) {
  if (!work.deliverable) return null;
  const uri = deliverable?.uri;
  return (
    <section class="panel box">
      <h2>Delivery</h2>
      <Facts
        facts={[
          ['Delivered', <Time at={work.deliverable.at} />],
          ['Hash', <code class="break">{work.deliverable.hash}</code>],
        ]}
      />
      {uri === undefined ? null : /^https?:\/\//i.test(uri) ? (
        <a href={uri} target="_blank" rel="noopener noreferrer nofollow">
          {uri}
        </a>
      ) : (
        <code class="break">{uri}</code>
      )}
      {deliverable?.content === undefined ? null : <Foreign text={deliverable.content} />}
    </section>
  );
}

function Verdict({ work: { evaluation, dispute }, wallets }: { work: Work; wallets: Wallet[] }) {
  const { outcome, reason, by, at, checks = [], waitingBecause, votes = [] } = evaluation;
  if (outcome === undefined && waitingBecause === undefined && votes.length === 0 && !dispute)
    return null;
  return (
    <section class="panel box">
      <h2>Verdict</h2>
      {outcome === undefined ? null : (
        <p>
          <Mark
            tone={outcome === 'approve' || outcome === 'approved' ? 'ok' : 'bad'}
            word={outcome}
          />{' '}
          <span class="dim">
            by {walletName(wallets, by ?? '')} {at === undefined ? null : <Time at={at} />}
          </span>
        </p>
      )}
      {reason === undefined ? null : <p class="wrap">{reason}</p>}
      {waitingBecause === undefined ? null : <p class="notice">{waitingBecause}</p>}
      {votes.map(({ member, outcome: vote, by: voter }) => (
        <p key={member}>
          Member {member}: {vote} <span class="dim">by {walletName(wallets, voter)}</span>
        </p>
      ))}
      {checks.length === 0 ? null : (
        <ul class="checks">
          {checks.map(({ criterion, met, evidence }, i) => (
            <li key={i}>
              <Mark tone={met ? 'ok' : 'bad'} word={met ? 'met' : 'not met'} />
              <span class="wrap">
                {criterion} <span class="dim">{evidence}</span>
              </span>
            </li>
          ))}
        </ul>
      )}
      {dispute ? (
        <p class="wrap">
          Disputed by {walletName(wallets, dispute.by)}: {dispute.reason}
          {dispute.resolution
            ? ` · resolved: ${dispute.resolution.answer}. ${dispute.resolution.reason ?? ''}`
            : ''}
        </p>
      ) : null}
    </section>
  );
}

const postingColumns = (wallets: readonly Wallet[]): Column<Posting>[] => [
  { title: 'Time', cell: ({ at }) => <Time at={at} /> },
  { title: 'Kind', cell: ({ kind }) => kind },
  { title: 'From', class: 'mono', cell: ({ from }) => walletName(wallets, from) },
  { title: 'To', class: 'mono', cell: ({ to }) => walletName(wallets, to) },
  { title: 'Amount', class: 'n', cell: ({ amount }) => amount },
  {
    title: 'Hash',
    class: 'mono',
    cell: ({ hash }) => <span title={hash}>{hash.slice(0, 12)}…</span>,
  },
];

function pretty(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
