// Webhooks with their deliveries, the responses of the receivers, and sending a delivery again.
import { useState } from 'preact/hooks';
import { get, post, remove } from '../api.ts';
import { Action } from '../parts/action.tsx';
import { CopyButton } from '../parts/copy.tsx';
import { useLive } from '../parts/live.ts';
import { useLoaded } from '../parts/loading.ts';
import { Mark } from '../parts/mark.tsx';
import { ProblemBox } from '../parts/problem.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { hrefOf, search, setSearch } from '../router.ts';
import { mayRun } from '../session.ts';

interface Webhook {
  id: string;
  url: string;
  events: string[];
  jobId?: string;
  createdAt: string;
}

interface Delivery {
  id: string;
  jobId: string;
  event: string;
  status: 'pending' | 'delivered' | 'failed';
  tries: number;
  answer?: string;
  createdAt: string;
  nextAt?: string;
  deliveredAt?: string;
}

/** Deliveries have no events. */
const pollMs = 2000;

export function WebhooksView() {
  const { value, error, reload } = useLoaded('webhooks', (signal) =>
    get<{ webhooks: Webhook[] }>('api/webhooks', {}, signal),
  );
  const chosen = search.value.get('webhook') ?? value?.webhooks[0]?.id;
  return (
    <section class="view" aria-labelledby="webhooks-title">
      <h1 id="webhooks-title">Webhooks</h1>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value?.webhooks.length === 0 ? (
        <p class="dim">No webhooks yet. A webhook sends each event of your jobs to a URL.</p>
      ) : null}
      {value && value.webhooks.length > 0 ? (
        <Table
          caption="Webhooks"
          rows={value.webhooks}
          columns={webhookColumns(reload)}
          keyOf={({ id }) => id}
          classOf={({ id }) => (id === chosen ? 'on' : '')}
        />
      ) : null}
      {mayRun.value ? <CreateWebhook onChanged={reload} /> : null}
      {chosen !== undefined && value?.webhooks.some(({ id }) => id === chosen) ? (
        <Deliveries key={chosen} id={chosen} />
      ) : null}
    </section>
  );
}

const webhookColumns = (onChanged: () => void): Column<Webhook>[] => [
  {
    title: 'URL',
    class: 'data',
    cell: ({ id, url }) => (
      <button type="button" class="link" onClick={() => setSearch('webhook', id)}>
        {url}
      </button>
    ),
  },
  { title: 'Events', class: 'data', cell: ({ events }) => events.join(', ') || 'all' },
  {
    title: 'Jobs',
    cell: ({ jobId }) =>
      jobId === undefined ? 'all of yours' : <a href={hrefOf(`/jobs/${jobId}`)}>{jobId}</a>,
  },
  { title: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
  {
    title: 'Actions',
    isQuiet: true,
    cell: ({ id, url }) =>
      mayRun.value ? (
        <Action
          label="Delete…"
          question={{
            title: 'Delete this webhook?',
            verb: 'Delete',
            isDangerous: true,
            text: (
              <p>
                No event is sent to <strong>{url}</strong> any more.
              </p>
            ),
          }}
          run={async () => {
            await remove(`api/webhooks/${encodeURIComponent(id)}`);
            onChanged();
          }}
        />
      ) : null,
  },
];

function CreateWebhook({ onChanged }: { onChanged(): void }) {
  const [url, setUrl] = useState('');
  const [secret, setSecret] = useState<string | undefined>(undefined);
  return (
    <>
      <div class="inline-form">
        <label for="webhook-url">New webhook</label>
        <input
          id="webhook-url"
          type="text"
          inputMode="url"
          placeholder="https://…"
          value={url}
          onInput={({ currentTarget }) => setUrl(currentTarget.value)}
        />
        <Action
          label="Create"
          isDisabled={url.trim() === ''}
          run={async () => {
            const made = await post<{ secret: string }>('api/webhooks', { url: url.trim() });
            setSecret(made.secret);
            setUrl('');
            onChanged();
          }}
        />
      </div>
      {secret === undefined ? null : (
        <div class="panel reason" role="status">
          <p>This secret verifies the signatures:</p>
          <p>
            <code class="break">{secret}</code> <CopyButton text={secret} label="Copy" />
          </p>
        </div>
      )}
    </>
  );
}

function Deliveries({ id }: { id: string }) {
  const { value, error, reload } = useLoaded(id, (signal) =>
    get<{ deliveries: Delivery[]; nextCursor?: string }>(
      `api/webhooks/${encodeURIComponent(id)}/deliveries`,
      { limit: 200 },
      signal,
    ),
  );
  useLive(reload, { pollMs });
  return (
    <section class="group">
      <h2>Deliveries</h2>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value?.deliveries.length === 0 ? <p class="dim">Nothing was sent yet.</p> : null}
      {value && value.deliveries.length > 0 ? (
        <Table
          caption="Deliveries"
          rows={value.deliveries}
          columns={deliveryColumns(reload)}
          keyOf={(delivery) => delivery.id}
        />
      ) : null}
      {value?.nextCursor === undefined ? null : (
        <p class="dim">The 200 newest deliveries are shown.</p>
      )}
    </section>
  );
}

const tones = { pending: 'wait', delivered: 'ok', failed: 'bad' } as const;

const deliveryColumns = (onChanged: () => void): Column<Delivery>[] => [
  { title: 'State', cell: ({ status }) => <Mark tone={tones[status]} word={status} /> },
  { title: 'Event', cell: ({ event }) => event },
  {
    title: 'Job',
    class: 'mono',
    cell: ({ jobId }) => <a href={hrefOf(`/jobs/${jobId}`)}>{jobId}</a>,
  },
  { title: 'Response', class: 'data', cell: ({ answer }) => answer ?? '–' },
  { title: 'Tries', class: 'n', cell: ({ tries }) => tries },
  { title: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
  {
    title: 'Next try',
    cell: ({ nextAt, status }) =>
      status === 'pending' && nextAt !== undefined ? <Time at={nextAt} /> : '–',
  },
  {
    title: 'Actions',
    isQuiet: true,
    cell: ({ id }) =>
      mayRun.value ? (
        <Action
          label="Send again"
          run={async () => {
            await post(`api/deliveries/${encodeURIComponent(id)}/replay`);
            onChanged();
            return 'The delivery is sent again.';
          }}
        />
      ) : null,
  },
];
