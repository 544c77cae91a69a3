// Tabs of a view. The chosen one is in the address, so that a link shows the same part.
import type { ComponentChildren } from 'preact';
import { search, setSearch } from '../router.ts';

interface TabsProps<Name extends string> {
  label: string;
  /** Name → title, in order. The first is shown unless the address names another. */
  tabs: Readonly<Partial<Record<Name, string>>>;
  children(chosen: Name): ComponentChildren;
}

export function Tabs<Name extends string>({ label, tabs, children }: TabsProps<Name>) {
  const names = Object.keys(tabs) as Name[];
  const wanted = search.value.get('tab') as Name | null;
  const chosen = wanted !== null && names.includes(wanted) ? wanted : names[0]!;
  const move = (step: number) => {
    const next = names[(names.indexOf(chosen) + step + names.length) % names.length]!;
    setSearch('tab', next);
    document.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <>
      <div
        class="tabs"
        role="tablist"
        aria-label={label}
        onKeyDown={({ key }) => {
          if (key === 'ArrowRight') move(1);
          if (key === 'ArrowLeft') move(-1);
        }}
      >
        {names.map((name) => (
          <button
            key={name}
            id={`tab-${name}`}
            type="button"
            role="tab"
            aria-selected={name === chosen}
            aria-controls="tab-panel"
            tabIndex={name === chosen ? 0 : -1}
            onClick={() => setSearch('tab', name)}
          >
            {tabs[name]}
          </button>
        ))}
      </div>
      <div id="tab-panel" class="tab-panel" role="tabpanel" aria-labelledby={`tab-${chosen}`}>
        {children(chosen)}
      </div>
    </>
  );
}
