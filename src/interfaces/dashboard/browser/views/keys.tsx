// API keys: what each allows in words; create, rotate, revoke.
import { useState } from 'preact/hooks';
import { get, post, remove } from '../api.ts';
import { Action } from '../parts/action.tsx';
import { Command } from '../parts/copy.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Mark } from '../parts/mark.tsx';
import { ProblemBox } from '../parts/problem.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { now } from '../now.ts';
import { SchemaForm } from './start/form.tsx';
import { loadForm } from './start/schema.ts';

interface Key {
  id: string;
  owner: string;
  name?: string;
  scopes: string[];
  allows: string[];
  limits: string[];
  createdAt: string;
  expiresAt?: string;
  revokedAt?: string;
}

interface CreatedKey extends Key {
  key: string;
}

export function KeysView() {
  const { value, error, reload } = useLoaded('keys', (signal) =>
    get<{ keys: Key[] }>('api/keys', {}, signal),
  );
  const [made, setMade] = useState<CreatedKey | undefined>(undefined);
  const [isCreating, setCreating] = useState(false);
  const [isOld, setOld] = useState(false);
  const onMade = (key: CreatedKey) => {
    setMade(key);
    setCreating(false);
    reload();
  };
  const active = (value?.keys ?? []).filter((key) => !isOver(key));
  const old = (value?.keys ?? []).filter(isOver);
  return (
    <section class="view" aria-labelledby="keys-title">
      <header class="view-title">
        <h1 id="keys-title">Keys</h1>
        <div class="actions">
          <button type="button" class="primary" onClick={() => setCreating(!isCreating)}>
            {isCreating ? 'Back' : 'New key'}
          </button>
        </div>
      </header>
      <p class="dim">
        Programs, agents and people on other machines authenticate with a key. Clients on this
        machine need none.
      </p>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {made ? <NewKey made={made} onClose={() => setMade(undefined)} /> : null}
      {isCreating ? <CreateKey onMade={onMade} /> : null}
      {value ? (
        <Table
          caption="Keys"
          rows={isOld ? [...active, ...old] : active}
          columns={columnsOf(reload, onMade)}
          keyOf={({ id }) => id}
        />
      ) : null}
      {old.length > 0 ? (
        <p>
          <button type="button" aria-pressed={isOld} onClick={() => setOld(!isOld)}>
            Show keys that expired or were revoked ({old.length})
          </button>
        </p>
      ) : null}
    </section>
  );
}

const isOver = ({ revokedAt, expiresAt }: Key): boolean =>
  revokedAt !== undefined || (expiresAt !== undefined && Date.parse(expiresAt) < now.value);

function NewKey({ made, onClose }: { made: CreatedKey; onClose(): void }) {
  return (
    <div class="panel box" role="status">
      <h2>The key is shown only once</h2>
      <Command text={made.key} />
      <p>Anyone who has it can:</p>
      <Rights rights={made} />
      <div class="actions">
        <button type="button" onClick={onClose}>
          I have copied it
        </button>
      </div>
    </div>
  );
}

function CreateKey({ onMade }: { onMade(key: CreatedKey): void }) {
  const { value, error, reload } = useLoaded('create_key', () =>
    loadForm('create_key', { first: ['name', 'scopes', 'owner', 'expiresInMs'], omitted: [] }),
  );
  if (error !== undefined) return <ProblemBox error={error} onRetry={reload} />;
  if (!value) return <div class="loading" aria-busy="true" />;
  return (
    <SchemaForm
      form={value}
      verb="Create the key"
      fixed={{}}
      initial={{ scopes: 'read\nrun' }}
      known={{}}
      onDone={(key) => onMade(key as unknown as CreatedKey)}
    />
  );
}

function Rights({ rights: { allows, limits } }: { rights: Pick<Key, 'allows' | 'limits'> }) {
  return (
    <ul class="rights">
      {allows.map((line) => (
        <li key={line}>{line}</li>
      ))}
      {limits.map((line) => (
        <li key={line} class="wait">
          {line}
        </li>
      ))}
    </ul>
  );
}

const columnsOf = (onChanged: () => void, onMade: (key: CreatedKey) => void): Column<Key>[] => [
  {
    title: 'Key',
    cell: ({ id, name }) => (
      <>
        {name ?? id}
        {name === undefined ? null : <small class="below mono">{id}</small>}
      </>
    ),
  },
  { title: 'State', cell: (key) => <Mark {...markOf(key)} /> },
  { title: 'Owner', cell: ({ owner }) => owner },
  {
    title: 'Allows',
    class: 'data',
    cell: (key) => (
      <details>
        <summary>
          {key.scopes.join(', ')}
          {key.limits.length > 0 ? `; ${key.limits.join('; ')}` : ''}
        </summary>
        <Rights rights={key} />
      </details>
    ),
  },
  { title: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
  {
    title: 'Expires',
    cell: ({ expiresAt }) => (expiresAt === undefined ? 'never' : <Time at={expiresAt} />),
  },
  {
    title: 'Actions',
    isQuiet: true,
    cell: (key) =>
      isOver(key) ? null : <KeyActions keyRow={key} onChanged={onChanged} onMade={onMade} />,
  },
];

function markOf(key: Key): { tone: 'ok' | 'off'; word: string } {
  if (key.revokedAt !== undefined) return { tone: 'off', word: 'revoked' };
  return isOver(key) ? { tone: 'off', word: 'expired' } : { tone: 'ok', word: 'active' };
}

interface KeyActionsProps {
  keyRow: Key;
  onChanged(): void;
  onMade(key: CreatedKey): void;
}

function KeyActions({ keyRow: { id, name = id }, onChanged, onMade }: KeyActionsProps) {
  const path = `api/keys/${encodeURIComponent(id)}`;
  return (
    <div class="actions">
      <Action
        label="Rotate…"
        question={{
          title: 'Replace this key?',
          verb: 'Replace',
          isDangerous: true,
          text: (
            <p>
              You get a new key with the same rights. <strong>{name}</strong> stops working
              immediately.
            </p>
          ),
        }}
        run={async () => onMade(await post<CreatedKey>(`${path}/rotate`))}
      />
      <Action
        label="Revoke…"
        question={{
          title: 'Revoke this key?',
          verb: 'Revoke',
          isDangerous: true,
          text: (
            <p>
              Calls and sessions with <strong>{name}</strong> are rejected from now on. Jobs that it
              started continue.
            </p>
          ),
        }}
        run={async () => {
          await remove(path);
          onChanged();
          return 'The key was revoked.';
        }}
      />
    </div>
  );
}
