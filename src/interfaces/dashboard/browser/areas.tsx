// The views and how they are reached. Views of a kind exist only where the server offers that kind.
import type { ComponentType } from 'preact';
import { lazy } from './lazy.tsx';
import { mayAdminister, mayRun, offers } from './session.ts';
import { JobsView } from './views/jobs.tsx';

type View = ComponentType<{ id: string | undefined }>;

interface Area {
  name: string;
  label: string;
  View: View;
  isShown?: () => boolean;
  /** A button above the other links. */
  isAction?: true;
}

const of = (kind: string) => () => offers(kind);

const areas: readonly Area[] = [
  {
    name: 'start',
    label: 'New job',
    isAction: true,
    isShown: () => mayRun.value,
    View: lazy(async () => (await import('./views/start/start.tsx')).StartView),
  },
  { name: 'jobs', label: 'Jobs', View: JobsView },
  {
    name: 'overview',
    label: 'Overview',
    View: lazy(async () => (await import('./views/overview.tsx')).OverviewView),
  },
  {
    name: 'endpoints',
    label: 'Endpoints',
    isShown: of('endpoint'),
    View: lazy(async () => (await import('./views/endpoints/endpoints.tsx')).EndpointsView),
  },
  {
    name: 'crawls',
    label: 'Crawls',
    isShown: of('web'),
    View: lazy(async () => (await import('./views/crawls/crawls.tsx')).CrawlsView),
  },
  {
    name: 'escrow',
    label: 'Escrow',
    isShown: of('escrow'),
    View: lazy(async () => (await import('./views/escrow/escrow.tsx')).EscrowView),
  },
  {
    name: 'queues',
    label: 'Queues',
    View: lazy(async () => (await import('./views/queues.tsx')).QueuesView),
  },
  {
    name: 'nodes',
    label: 'Nodes',
    View: lazy(async () => (await import('./views/nodes.tsx')).NodesView),
  },
  {
    name: 'webhooks',
    label: 'Webhooks',
    View: lazy(async () => (await import('./views/webhooks.tsx')).WebhooksView),
  },
  {
    name: 'keys',
    label: 'Keys',
    isShown: () => mayAdminister.value,
    View: lazy(async () => (await import('./views/keys.tsx')).KeysView),
  },
  {
    name: 'sessions',
    label: 'Sessions',
    View: lazy(async () => (await import('./views/sessions.tsx')).SessionsView),
  },
  {
    name: 'connect',
    label: 'Connect a client',
    View: lazy(async () => (await import('./views/connect.tsx')).ConnectView),
  },
];

const nameIn = (path: string): string => path.split('/')[1] || 'jobs';

export function shownAreas() {
  return areas
    .filter(({ isShown }) => isShown?.() !== false)
    .map(({ name, label, isAction }) => ({
      to: `/${name}`,
      label,
      ...(isAction ? { isAction } : {}),
      isCurrent: (path: string) => nameIn(path) === name,
    }));
}

export function viewAt(path: string): { View: View; id: string | undefined } {
  const area = areas.find(({ name }) => name === nameIn(path));
  const id = path.split('/')[2];
  const isShown = area !== undefined && area.isShown?.() !== false;
  return { View: isShown ? area.View : NotHere, id: id ? decoded(id) : undefined };
}

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

function NotHere() {
  return (
    <div class="empty">
      <h2>This view is not available</h2>
      <p>This server does not offer it, or your session does not have the rights for it.</p>
    </div>
  );
}
