// Escrow: the jobs that wait for somebody first, and wallets; or one job.
import { plural } from '../../format.ts';
import { now } from '../../now.ts';
import { ofKind, useLive } from '../../parts/live.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ProblemBox } from '../../parts/problem.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { hrefOf } from '../../router.ts';
import { Deadline } from './deadline.tsx';
import { isOver, loadBoard, type Turn } from './load.ts';
import { StageMark } from './stage.tsx';
import { Wallets } from './wallets.tsx';
import { walletName, type Wallet } from './types.ts';
import { WorkView } from './work.tsx';

export function EscrowView({ id }: { id: string | undefined }) {
  return id === undefined ? <Overview /> : <WorkView key={id} id={id} />;
}

function Overview() {
  const { value, error, reload } = useLoaded('escrow', loadBoard);
  useLive(reload, { isMine: ofKind('escrow') });
  return (
    <section class="view" aria-labelledby="escrow-title">
      <h1 id="escrow-title">Escrow</h1>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value ? (
        <Tabs label="Parts of escrow" tabs={{ jobs: 'Jobs', wallets: 'Wallets and books' }}>
          {(tab) =>
            tab === 'jobs' ? (
              <Jobs turns={value.turns} wallets={value.wallets} />
            ) : (
              <Wallets wallets={value.wallets} onChanged={reload} />
            )
          }
        </Tabs>
      ) : null}
    </section>
  );
}

function Jobs({ turns, wallets }: { turns: readonly Turn[]; wallets: readonly Wallet[] }) {
  if (turns.length === 0)
    return (
      <div class="empty">
        <h2>No escrow jobs yet</h2>
        <p>
          An escrow job hires another agent under a budget. The budget is held until the delivery is
          accepted.
        </p>
        <p>
          {wallets.length === 0 ? 'First create a wallet under “Wallets and books”. ' : ''}
          <a class="button" href={hrefOf('/start?form=post_work')}>
            Post an escrow job
          </a>
        </p>
      </div>
    );
  const mine = turns.filter(({ isMine }) => isMine);
  const others = turns.filter(({ isMine, work }) => !isMine && !isOver(work));
  const over = turns.filter(({ work }) => isOver(work));
  const late = mine.filter(({ work }) => Date.parse(work.deadline ?? '') < now.value).length;
  const columns = columnsOf(wallets);
  const group = (title: string, rows: readonly Turn[]) =>
    rows.length === 0 ? null : (
      <section class="group">
        <h2>{title}</h2>
        <Table caption={title} rows={rows} columns={columns} keyOf={({ work }) => work.id} />
      </section>
    );
  return (
    <>
      {mine.length === 0 ? <p class="dim">Nothing waits for you.</p> : null}
      {late > 0 ? <p class="notice">{plural(late, 'deadline')} passed.</p> : null}
      {group('You must act now', mine)}
      {group('Waits for others', others)}
      {group('Ended', over)}
    </>
  );
}

const columnsOf = (wallets: readonly Wallet[]): Column<Turn>[] => [
  { title: 'Stage', cell: ({ work }) => <StageMark work={work} /> },
  {
    title: 'Job',
    class: 'data',
    cell: ({ work }) => (
      <>
        <a href={hrefOf(`/escrow/${work.id}`)}>{work.title ?? work.id}</a>
        <small class="below">
          {walletName(wallets, work.client)} → {walletName(wallets, work.provider)}
        </small>
      </>
    ),
  },
  {
    title: 'Amount',
    class: 'n',
    cell: ({ work }) => `${work.amount} ${work.currency}`,
  },
  { title: 'Next', cell: ({ work }) => nextText(work.nextActor, wallets) },
  {
    title: 'Deadline',
    cell: ({ work }) => <Deadline at={isOver(work) ? undefined : work.deadline} />,
  },
];

function nextText(actor: string | undefined, wallets: readonly Wallet[]): string {
  if (actor === undefined) return '–';
  const [role = '', wallet] = actor.split(' ');
  return wallet === undefined ? role : `${role} ${walletName(wallets, wallet)}`;
}
