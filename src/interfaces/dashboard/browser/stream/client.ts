// A page's end of the shared connection. Browsers without shared workers get one connection per tab.
import { signal } from '@preact/signals';
import { isLoggedOut } from '../api.ts';
import { base, workerUrl } from '../base.ts';
import { Hub } from './hub.ts';
import type { Change, FromPage, State, ToPage } from './messages.ts';

export const streamState = signal<State>('connecting');
export const streamRetryAt = signal<number | undefined>(undefined);

/** True once every further change reaches this page: what is loaded afterwards is never outdated. */
export const isComplete = signal(false);

type Listener = (changes: readonly Change[]) => void;
const listeners = new Set<Listener>();

/** Changes of a short time are applied together: nobody reads faster, and a flood costs one update. */
const batchMs = 80;
let batch: Change[] = [];
let send: ((message: FromPage) => void) | undefined;

export function onChanges(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function connectStream(): void {
  if (send) return reconnectStream();
  send = 'SharedWorker' in globalThis ? connectWorker() : connectOwn();
  send({ type: 'hello', base: base.href, isVisible: isVisible() });
  document.addEventListener('visibilitychange', () =>
    send!({ type: 'visible', isVisible: isVisible() }),
  );
  addEventListener('pagehide', () => send!({ type: 'bye' }));
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted) send!({ type: 'hello', base: base.href, isVisible: isVisible() });
  });
  addEventListener('online', () => send!({ type: 'retry' }));
}

/** After a login, or when the user does not want to wait. */
export function reconnectStream(): void {
  send?.({ type: 'hello', base: base.href, isVisible: isVisible() });
  send?.({ type: 'retry' });
}

const isVisible = (): boolean => document.visibilityState === 'visible';

function connectWorker(): (message: FromPage) => void {
  const { port } = new SharedWorker(workerUrl, { type: 'module', name: `errand ${base.pathname}` });
  port.onmessage = ({ data }: MessageEvent<ToPage>) => receive(data);
  return (message) => port.postMessage(message);
}

function connectOwn(): (message: FromPage) => void {
  const hub = new Hub();
  const page = { post: receive };
  return (message) => hub.receive(page, message);
}

function receive(message: ToPage): void {
  if (message.type === 'cursor') return void (isComplete.value = true);
  if (message.type === 'state') {
    streamState.value = message.state;
    streamRetryAt.value = message.retryAt;
    if (message.state === 'ended') isLoggedOut.value = true;
    return;
  }
  if (batch.length === 0) setTimeout(publish, batchMs);
  batch.push(...message.changes);
}

function publish(): void {
  const changes = batch;
  batch = [];
  for (const listener of listeners) listener(changes);
}
