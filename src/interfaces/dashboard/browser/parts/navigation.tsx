// The navigation of all views.
import { hrefOf, path } from '../router.ts';
import { logOut, mayRun, me } from '../session.ts';

const links = [
  ['/jobs', 'Jobs'],
  ['/overview', 'Overview'],
  ['/queues', 'Queues'],
  ['/connect', 'Connect a client'],
  ['/sessions', 'Sessions'],
] as const;

const isCurrent = (to: string): boolean =>
  path.value === to || (to === '/jobs' && (path.value === '/' || path.value.startsWith('/jobs/')));

export function Navigation({ onPalette }: { onPalette(): void }) {
  return (
    <header class="nav">
      <a class="brand" href={hrefOf('/jobs')}>
        errand
      </a>
      <nav aria-label="Views">
        {links.map(([to, label]) => (
          <a
            key={to}
            href={hrefOf(to)}
            {...(isCurrent(to) ? { 'aria-current': 'page' as const } : {})}
          >
            {label}
          </a>
        ))}
      </nav>
      <button type="button" class="palette-button" onClick={onPalette}>
        <span>Go to…</span> <kbd>{/Mac|iP/.test(navigator.platform) ? '⌘' : 'Ctrl'} K</kbd>
      </button>
      <div class="who">
        <span title={`Errand ${me.value?.server.version ?? ''}`}>
          {me.value?.owner}
          {mayRun.value ? '' : ' · read-only'}
        </span>
        <button type="button" class="quiet" onClick={() => void logOut()}>
          Log out
        </button>
      </div>
    </header>
  );
}
