// The page that is acted on: the newest that the work has opened. A link to a new tab leads there, as it leads a person;
// when that one closes, the one before it is the page again. What a page asks in a dialog is told, and answered with no.
import type { Page } from 'playwright-core';

/** A page may open any number of tabs; nobody looks at them all. */
const tabsMax = 5;
const dialogsMax = 10;
const messageCharsMax = 500;

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
      if (this.open.length >= tabsMax) page.close().catch(() => {});
      else this.add(page);
    });
  }

  get current(): Page {
    return this.open.at(-1)!;
  }

  /** Dialogs since the last time this was asked. */
  takeDialogs(): SeenDialog[] {
    const seen = this.dialogs;
    this.dialogs = [];
    return seen;
  }

  private add(page: Page): void {
    if (this.open.includes(page)) return;
    this.open.push(page);
    page.on('close', () => {
      // The last one stays: whoever acts on it is told that it is closed.
      if (this.open.length > 1) this.open.splice(this.open.indexOf(page), 1);
    });
    page.on('dialog', (dialog) => {
      const message = dialog.message().slice(0, messageCharsMax);
      if (this.dialogs.length < dialogsMax) this.dialogs.push({ type: dialog.type(), message });
      // Leaving a page is what was asked for; any other question is for the caller.
      const answer = dialog.type() === 'beforeunload' ? dialog.accept() : dialog.dismiss();
      answer.catch(() => {});
    });
  }
}
