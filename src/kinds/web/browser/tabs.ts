// Tracks the tabs of a browser task. Actions run in the newest open tab; when it closes, the previous one is current again.
// Dialogs are reported and dismissed.
import type { Page } from 'playwright-core';

/** Limits the tabs that a page can open. */
const maxTabs = 5;
const maxDialogs = 10;
const maxMessageChars = 500;

export interface SeenDialog {
  type: string;
  message: string;
}

export class Tabs {
  private readonly open: Page[] = [];
  private dialogs: SeenDialog[] = [];

  constructor(first: Page) {
    this.add(first);
    first.context().on('page', (page) => {
      if (this.open.length >= maxTabs) page.close().catch(() => {});
      else this.add(page);
    });
  }

  get current(): Page {
    return this.open.at(-1)!;
  }

  /** Returns and clears the dialogs since the last call. */
  takeDialogs(): SeenDialog[] {
    const seen = this.dialogs;
    this.dialogs = [];
    return seen;
  }

  private add(page: Page): void {
    if (this.open.includes(page)) return;
    this.open.push(page);
    page.on('close', () => {
      // The last tab stays, so that actions on it fail with a clear error.
      if (this.open.length > 1) this.open.splice(this.open.indexOf(page), 1);
    });
    page.on('dialog', (dialog) => {
      const message = dialog.message().slice(0, maxMessageChars);
      if (this.dialogs.length < maxDialogs) this.dialogs.push({ type: dialog.type(), message });
      // Accepts leaving the page, because the caller asked for it. All other dialogs are dismissed.
      const answer = dialog.type() === 'beforeunload' ? dialog.accept() : dialog.dismiss();
      answer.catch(() => {});
    });
  }
}
