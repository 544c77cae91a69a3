// Starts work: one form per kind that the server offers.
import { get } from '../../api.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ProblemBox } from '../../parts/problem.tsx';
import { go, search, setSearch } from '../../router.ts';
import { offers } from '../../session.ts';
import type { Known } from './field.tsx';
import { SchemaForm } from './form.tsx';
import { loadForm } from './schema.ts';
import type { Texts } from './values.ts';

interface Starter {
  operation: string;
  kind: string;
  title: string;
  verb: string;
  first: readonly string[];
  omitted: readonly string[];
  fixed: Readonly<Record<string, unknown>>;
  /** Where the new job is shown. */
  view: string;
  known?(signal: AbortSignal): Promise<Record<string, Known[]>>;
}

const none: Record<string, Known[]> = {};

const starters: readonly Starter[] = [
  {
    operation: 'run_command',
    kind: 'command',
    title: 'Run a command',
    verb: 'Run',
    first: ['command', 'cwd', 'name', 'tty'],
    omitted: ['waitMs'],
    fixed: { waitMs: 0 },
    view: '/jobs/',
  },
  {
    operation: 'run_endpoint',
    kind: 'endpoint',
    title: 'Call an endpoint',
    verb: 'Call',
    first: ['input'],
    omitted: ['waitMs'],
    fixed: {},
    view: '/jobs/',
    known: async (signal) => {
      const { endpoints } = await get<{ endpoints: { id: string; state: string }[] }>(
        'api/endpoints',
        {},
        signal,
      );
      return { endpointId: endpoints.map(({ id, state }) => ({ value: id, label: state })) };
    },
  },
  {
    operation: 'crawl_site',
    kind: 'web',
    title: 'Crawl a site',
    verb: 'Crawl',
    first: ['url', 'maxPages', 'maxDepth', 'include', 'exclude'],
    omitted: [],
    fixed: {},
    view: '/crawls/',
  },
  {
    operation: 'post_work',
    kind: 'escrow',
    title: 'Post an escrow job',
    verb: 'Post',
    first: ['provider', 'title', 'description', 'budget', 'expiresAt', 'fund', 'wallet'],
    omitted: [],
    fixed: {},
    view: '/escrow/',
    known: async (signal) => {
      const { wallets } = await get<{ wallets: { id: string; name?: string; balance: string }[] }>(
        'api/wallets',
        {},
        signal,
      );
      const own = wallets.map(({ id, name = id, balance }) => ({
        value: id,
        label: `${name}, ${balance}`,
      }));
      return { wallet: own, provider: own };
    },
  },
];

export function StartView() {
  const offered = starters.filter(({ kind }) => offers(kind));
  const wanted = search.value.get('form');
  const starter = offered.find(({ operation }) => operation === wanted) ?? offered[0];
  return (
    <section class="view narrow" aria-labelledby="start-title">
      <h1 id="start-title">New job</h1>
      <div class="choice large" role="group" aria-label="What to start">
        {offered.map(({ operation, title }) => (
          <button
            key={operation}
            type="button"
            aria-pressed={operation === starter?.operation}
            onClick={() => setSearch('form', operation)}
          >
            {title}
          </button>
        ))}
      </div>
      {starter ? (
        <StartForm key={starter.operation} starter={starter} />
      ) : (
        <p class="dim">This server offers no kind of job that your session may start.</p>
      )}
    </section>
  );
}

function StartForm({ starter }: { starter: Starter }) {
  const { value, error, reload } = useLoaded(starter.operation, async (signal) => {
    const [form, known] = await Promise.all([
      loadForm(starter.operation, starter),
      starter.known?.(signal) ?? none,
    ]);
    return { form, known };
  });
  if (error !== undefined) return <ProblemBox error={error} onRetry={reload} />;
  if (!value) return <div class="loading" aria-busy="true" />;
  const { form, known } = value;
  const fields = [...form.fields, ...form.rare].map(({ name }) => name);
  const given = [...search.value].filter(([name]) => fields.includes(name));
  // With several wallets, one must be named.
  const [wallet, another] = known.wallet ?? [];
  const usual: Texts = wallet && another ? { wallet: wallet.value } : {};
  return (
    <SchemaForm
      form={form}
      verb={starter.verb}
      fixed={starter.fixed}
      initial={{ ...usual, ...Object.fromEntries(given) }}
      known={known}
      onDone={({ id }) => go(`${starter.view}${String(id)}`)}
    />
  );
}
