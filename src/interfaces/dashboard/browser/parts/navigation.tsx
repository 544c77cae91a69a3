// The navigation of all views.
import { useEffect } from 'preact/hooks';
import { shownAreas } from '../areas.tsx';
import { hrefOf, path } from '../router.ts';
import { logOut, mayRun, me } from '../session.ts';

export function Navigation({ onPalette }: { onPalette(): void }) {
  // On a narrow screen the links are one row that scrolls.
  useEffect(() => {
    document
      .querySelector('nav [aria-current]')
      ?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [path.value.split('/')[1]]);
  return (
    <header class="nav">
      <a class="brand" href={hrefOf('/jobs')}>
        errand
      </a>
      <nav aria-label="Views">
        {shownAreas().map(({ to, label, isCurrent, isAction }) => (
          <a
            key={to}
            href={hrefOf(to)}
            {...(isAction === true ? { class: 'nav-action' } : {})}
            {...(isCurrent(path.value) ? { 'aria-current': 'page' as const } : {})}
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
