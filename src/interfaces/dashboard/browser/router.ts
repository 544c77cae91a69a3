// The address of the view: path below the base, and the query. Links are ordinary anchors.
import { computed, signal } from '@preact/signals';
import { base } from './base.ts';

const address = signal(read());

export const path = computed(() => address.value.path);
export const search = computed(() => new URLSearchParams(address.value.search));

export function start(): void {
  addEventListener('popstate', () => (address.value = read()));
  document.addEventListener('click', followLink);
}

export function go(to: string, { replace = false } = {}): void {
  const url = new URL(to.replace(/^\//, ''), base);
  if (url.href === location.href) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  address.value = read();
}

/** The address of a view, for `href`. */
export const hrefOf = (to: string): string => new URL(to.replace(/^\//, ''), base).href;

export function setSearch(name: string, value: string | undefined, { replace = true } = {}): void {
  const query = new URLSearchParams(address.value.search);
  if (value === undefined || value === '') query.delete(name);
  else query.set(name, value);
  const text = query.toString();
  go(`${address.value.path}${text === '' ? '' : `?${text}`}`, { replace });
}

function read(): { path: string; search: string } {
  const below = location.pathname.slice(base.pathname.length - 1);
  return { path: below === '' ? '/' : below, search: location.search };
}

/** Keeps clicks that open a new tab, and links to other sites. */
function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest?.('a');
  if (!link || link.target !== '' || link.hasAttribute('download')) return;
  const url = new URL(link.href, location.href);
  if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return;
  if (url.hash !== '' || url.pathname.startsWith(`${base.pathname}api/`)) return;
  event.preventDefault();
  go(`${url.pathname.slice(base.pathname.length - 1)}${url.search}`);
}
