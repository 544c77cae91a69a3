// Wallets with balance and limits, their payments, and the check of all books.
import { useState } from 'preact/hooks';
import { units } from '../../amounts.ts';
import { get, patch, post, Problem, put } from '../../api.ts';
import { count } from '../../format.ts';
import { Action } from '../../parts/action.tsx';
import { Facts } from '../../parts/facts.tsx';
import { useLoaded } from '../../parts/loading.ts';
import { Mark } from '../../parts/mark.tsx';
import { ProblemBox } from '../../parts/problem.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { search, setSearch } from '../../router.ts';
import { mayAdminister, mayRun } from '../../session.ts';
import { MintButton, LimitsButton } from './wallet-forms.tsx';
import { walletName, type Wallet } from './types.ts';

interface Payment {
  id: string;
  from: string;
  to: string;
  amount: string;
  fee: string;
  kind: string;
  status: string;
  memo?: string;
  at: string;
}

interface WalletsProps {
  wallets: readonly Wallet[];
  onChanged(): void;
}

export function Wallets({ wallets, onChanged }: WalletsProps) {
  const chosen = search.value.get('wallet') ?? wallets[0]?.id;
  return (
    <>
      {wallets.length === 0 ? (
        <p class="dim">You have no wallet yet.</p>
      ) : (
        <Table
          caption="Wallets"
          rows={wallets}
          columns={columnsOf(onChanged)}
          keyOf={({ id }) => id}
          classOf={({ id }) => (id === chosen ? 'on' : '')}
        />
      )}
      {mayRun.value ? <CreateWallet onChanged={onChanged} /> : null}
      {chosen !== undefined && wallets.some(({ id }) => id === chosen) ? (
        <Payments key={chosen} wallet={chosen} wallets={wallets} />
      ) : null}
      <Books />
    </>
  );
}

const columnsOf = (onChanged: () => void): Column<Wallet>[] => [
  {
    title: 'Wallet',
    cell: ({ id, name }) => (
      <>
        <button type="button" class="link" onClick={() => setSearch('wallet', id)}>
          {name ?? id}
        </button>
        {name === undefined ? null : <small class="below mono">{id}</small>}
      </>
    ),
  },
  {
    title: 'State',
    cell: ({ status }) => <Mark tone={status === 'active' ? 'ok' : 'wait'} word={status} />,
  },
  { title: 'Balance', class: 'n', cell: ({ balance, currency }) => `${balance} ${currency}` },
  {
    title: 'Limits',
    class: 'data',
    cell: ({ limits: { perTransaction, perDay, allowlist = [], expiresAt } }) =>
      [
        perTransaction === undefined ? undefined : `${perTransaction} per payment`,
        perDay === undefined ? undefined : `${perDay} per day`,
        allowlist.length === 0 ? undefined : `pays only ${allowlist.length} wallets`,
        expiresAt === undefined ? undefined : `until ${expiresAt.slice(0, 10)}`,
      ]
        .filter((part) => part !== undefined)
        .join(', ') || 'none',
  },
  {
    title: 'Actions',
    isQuiet: true,
    cell: (wallet) => <WalletActions wallet={wallet} onChanged={onChanged} />,
  },
];

function WalletActions({ wallet, onChanged }: { wallet: Wallet; onChanged(): void }) {
  const isFrozen = wallet.status === 'frozen';
  return (
    <div class="actions">
      {mayRun.value ? (
        <>
          <LimitsButton wallet={wallet} onChanged={onChanged} />
          <Action
            label={isFrozen ? 'Unfreeze' : 'Freeze'}
            run={async () => {
              await patch(`api/wallets/${wallet.id}`, { frozen: !isFrozen });
              onChanged();
              return isFrozen ? 'The wallet can spend again.' : 'The wallet cannot spend any more.';
            }}
          />
        </>
      ) : null}
      {mayAdminister.value ? <MintButton wallet={wallet} onChanged={onChanged} /> : null}
    </div>
  );
}

function CreateWallet({ onChanged }: { onChanged(): void }) {
  const [name, setName] = useState('');
  return (
    <div class="inline-form">
      <label for="wallet-name">New wallet</label>
      <input
        id="wallet-name"
        type="text"
        placeholder="Name"
        maxLength={50}
        value={name}
        onInput={({ currentTarget }) => setName(currentTarget.value)}
      />
      <Action
        label="Create"
        run={async () => {
          await post('api/wallets', name.trim() === '' ? {} : { name: name.trim() });
          setName('');
          onChanged();
          return 'The wallet was created with balance 0.';
        }}
      />
    </div>
  );
}

function Payments({ wallet, wallets }: { wallet: string; wallets: readonly Wallet[] }) {
  const { value, error, reload } = useLoaded(wallet, (signal) =>
    get<{ payments: Payment[] }>('api/payments', { wallet, limit: 50 }, signal),
  );
  const who = (id: string) => walletName(wallets, id);
  return (
    <section class="group">
      <h2>Payments of {who(wallet)}</h2>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value?.payments.length === 0 ? <p class="dim">No payments yet.</p> : null}
      {value && value.payments.length > 0 ? (
        <Table
          caption="Payments"
          rows={value.payments}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Time', cell: ({ at }) => <Time at={at} /> },
            { title: 'From', cell: ({ from }) => who(from) },
            { title: 'To', cell: ({ to }) => who(to) },
            { title: 'Amount', class: 'n', cell: ({ amount }) => amount },
            { title: 'Fee', class: 'n', cell: ({ fee }) => fee },
            { title: 'Kind', cell: ({ kind }) => kind },
            { title: 'Memo', class: 'data', cell: ({ memo }) => memo ?? '' },
          ]}
        />
      ) : null}
    </section>
  );
}

interface Report {
  ok: boolean;
  problems: string[];
  entries?: number;
  accounts?: number;
  jobs?: number;
  supply?: string;
  escrowed?: string;
  fees?: { platform: string; evaluator: string };
  fold?: string;
}

interface Health {
  ok: boolean;
  paused: boolean;
  backlog: number;
  stuck: number;
  settlements: Record<string, string>;
}

function Books() {
  const health = useLoaded('health', (signal) => get<Health>('api/escrow/health', {}, signal));
  const [report, setReport] = useState<Report | undefined>(undefined);
  const verify = async () => {
    try {
      setReport(await get<Report>('api/escrow/verify'));
    } catch (error) {
      if (!(error instanceof Problem) || !Array.isArray(error.data.problems)) throw error;
      setReport({ ok: false, problems: error.data.problems as string[] });
    }
  };
  const isPaused = health.value?.paused === true;
  return (
    <section class="panel box" aria-live="polite">
      <h2>Books</h2>
      {health.value ? (
        <Facts
          facts={[
            ['State', isPaused ? 'paused' : health.value.ok ? 'works' : 'needs attention'],
            ['Overdue', count(health.value.backlog)],
            ['Deliveries without a verdict', count(health.value.stuck)],
            ...Object.entries(health.value.settlements),
          ]}
        />
      ) : null}
      {mayAdminister.value ? (
        <div class="actions">
          <Action label="Verify the books" run={verify} />
          <Action
            label={isPaused ? 'Resume escrow' : 'Pause escrow…'}
            {...(isPaused
              ? {}
              : {
                  question: {
                    title: 'Pause escrow?',
                    verb: 'Pause',
                    text: (
                      <p>
                        Nothing can be created, funded, delivered, approved or paid until you resume
                        it. Refunds still work.
                      </p>
                    ),
                  },
                })}
            run={async () => {
              await put('api/escrow/pause', { paused: !isPaused });
              health.reload();
            }}
          />
        </div>
      ) : null}
      {report ? <ReportView report={report} /> : null}
    </section>
  );
}

function ReportView({ report }: { report: Report }) {
  if (!report.ok)
    return (
      <div class="problem" role="alert">
        <strong>The books are not correct.</strong>
        <ul>
          {report.problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      </div>
    );
  const { entries = 0, accounts = 0, jobs = 0, supply, escrowed, fees, fold } = report;
  return (
    <>
      <p>
        <Mark tone="ok" word="The books are correct" />
      </p>
      <Facts
        facts={[
          ['Entries', count(entries)],
          ['Accounts', count(accounts)],
          ['Jobs', count(jobs)],
          supply === undefined ? undefined : ['Credit', units(supply)],
          escrowed === undefined ? undefined : ['In escrow', units(escrowed)],
          fees ? ['Fees', `${units(fees.platform)} + ${units(fees.evaluator)}`] : undefined,
          fold === undefined ? undefined : ['Fold', <code class="break">{fold}</code>],
        ]}
      />
    </>
  );
}
