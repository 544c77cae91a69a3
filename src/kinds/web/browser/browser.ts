// The one browser of this server: started at need, ended when idle, every byte of it through the guarded proxy. Each
// piece of work has a context of its own (no cookies shared), a time limit, and is gone afterwards whatever happened.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  Browser as Chromium,
  BrowserContext,
  BrowserContextOptions,
  Page,
} from 'playwright-core';
import { AppError } from '../../../errors.ts';
import { randomId } from '../../../jobs/job.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { createEgressProxy, type Egress, type EgressProxy } from '../../../runtime/egress/index.ts';
import type { Log } from '../../../runtime/log.ts';
import type { Service } from '../../../runtime/service.ts';
import type { Rendered, RenderWish } from './rendered.ts';
import { prepare } from './actions.ts';
import { pictureFolder } from './pictures.ts';
import type { WebSettings } from '../settings.ts';
import { Failures } from './failures.ts';
import { sendHeaders } from './headers.ts';
import { launchBrowser, loadPlaywright } from './launch.ts';
import { pageHtml } from './page-html.ts';
import { within } from './within.ts';

export interface BrowserNeeds {
  settings: WebSettings;
  egress: Egress;
  clock: Clock;
  log: Log;
  /** Pictures go here, a folder per job. */
  folder: string;
}

export interface PageWish {
  timeoutMs: number;
  width?: number;
  height?: number;
  /** Sent to the host of the page only. */
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Picture {
  path: string;
  bytes: Buffer;
  mimeType: string;
  width: number;
  height: number;
}

export interface PictureWish {
  format?: 'jpeg' | 'png';
  quality?: number;
  fullPage?: boolean;
}

const viewport = { width: 1280, height: 800 };
/** How long a failed start is remembered. */
const brokenMs = 30_000;
const openMs = 20_000;
const settleMs = 1500;
/** A page may be endless; a picture may not. */
const pictureHeightMax = 16_000;
const capturesMax = 20;
const captureMs = 150;

export class Browser implements Service {
  readonly name = 'browser';
  private readonly needs: BrowserNeeds;
  private running: Promise<Chromium> | undefined;
  /** What `running` became. */
  private current: Chromium | undefined;
  private proxy: EgressProxy | undefined;
  private readonly failures = new Failures();
  private active = 0;
  private readonly line: (() => void)[] = [];
  private cancelIdle = () => {};
  private stopped = false;
  private broken: { error: AppError; until: number } | undefined;

  constructor(needs: BrowserNeeds) {
    this.needs = needs;
  }

  async start(): Promise<void> {
    this.stopped = false;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    for (const next of this.line.splice(0)) next();
    await this.end();
  }

  /** The page as scripts leave it. */
  async render(url: string, wish: PageWish & RenderWish & { jobId: string }): Promise<Rendered> {
    const start = this.needs.clock.now();
    return this.withPage(url, wish, async (page) => {
      const failed = await prepare(page, wish.actions ?? [], this.needs.clock);
      const html = await pageHtml(page);
      const picture = wish.screenshot ? await this.picture(page, wish.jobId, {}) : undefined;
      const ms = this.needs.clock.now() - start;
      return {
        html,
        url: page.url(),
        ms,
        ...(picture ? { screenshot: picture.path } : {}),
        ...(failed === undefined ? {} : { failed }),
      };
    });
  }

  async picture(page: Page, jobId: string, wish: PictureWish): Promise<Picture> {
    const type = wish.format ?? 'jpeg';
    const quality = type === 'jpeg' ? { quality: wish.quality ?? 60 } : {};
    const size = wish.fullPage ? await pageSize(page) : page.viewportSize()!;
    const clip = { x: 0, y: 0, width: size.width, height: Math.min(size.height, pictureHeightMax) };
    const area = wish.fullPage ? { fullPage: true, clip } : {};
    const take = () => page.screenshot({ type, ...quality, ...area, animations: 'disabled' });
    const bytes = await this.captured(take);
    const folder = pictureFolder(this.needs.folder, jobId);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, `${randomId('')}.${type === 'jpeg' ? 'jpg' : 'png'}`);
    await writeFile(path, bytes, { mode: 0o600 });
    return { path, bytes, mimeType: `image/${type}`, width: clip.width, height: clip.height };
  }

  /** After a very tall picture the browser can take none for up to a second. */
  private async captured(take: () => Promise<Buffer>): Promise<Buffer> {
    for (let again = capturesMax; ; again--) {
      try {
        return await take();
      } catch (error) {
        if (again === 0 || !/Unable to capture/.test((error as Error).message)) throw error;
        await this.needs.clock.sleep(captureMs);
      }
    }
  }

  /** Opens a page, goes there (an empty url: nowhere yet), does the work, closes everything. */
  async withPage<T>(
    url: string,
    wish: PageWish,
    work: (page: Page, status: number | undefined) => Promise<T>,
  ): Promise<T> {
    await this.enter(wish.signal);
    try {
      const { context, page } = await this.open(url, wish);
      try {
        return await this.bounded(wish, async () => {
          const status = url === '' ? undefined : await this.visit(page, url, wish.timeoutMs);
          return await work(page, status);
        });
      } finally {
        await context.close().catch(() => {});
      }
    } catch (error) {
      throw this.failures.explained(error, url, this.active === 1);
    } finally {
      this.leave();
    }
  }

  /** Goes there; the status of the answer. */
  async visit(page: Page, url: string, timeoutMs: number): Promise<number | undefined> {
    this.failures.forget(url);
    const answer = await page.goto(url, { waitUntil: 'domcontentloaded', timeout: timeoutMs });
    const { 'x-errand-error': code, 'x-errand-mark': mark } = answer?.headers() ?? {};
    // Sites may send the same names; only the proxy knows its mark.
    if (code !== undefined && this.proxy && mark === this.proxy.mark)
      throw new AppError(code, (await answer!.text()).trim());
    // Pictures and scripts of a page that never falls silent are not waited for longer than this.
    await page.waitForLoadState('networkidle', { timeout: settleMs }).catch(() => {});
    return answer?.status();
  }

  private async bounded<T>(wish: PageWish, work: () => Promise<T>): Promise<T> {
    const aborted = new Promise<never>((_, reject) => {
      const stop = () =>
        reject(new AppError('unavailable', 'The work in the browser was given up.'));
      if (wish.signal?.aborted) stop();
      wish.signal?.addEventListener('abort', stop, { once: true });
    });
    aborted.catch(() => {});
    return this.limited(wish.timeoutMs + settleMs, () => Promise.race([work(), aborted]));
  }

  private async limited<T>(limitMs: number, work: () => Promise<T>): Promise<T> {
    const late = () => new AppError('timeout', `The browser was not done within ${limitMs} ms.`);
    return within({ clock: this.needs.clock, limitMs, late }, work);
  }

  /** A browser that died while nobody used it is noticed here, and replaced once. */
  private async open(
    url: string,
    wish: PageWish,
  ): Promise<{ context: BrowserContext; page: Page }> {
    for (let attempt = 1; ; attempt++) {
      const browser = await this.launched();
      try {
        // One that lost some of its processes may never answer; without a limit, nor would we.
        return await this.limited(openMs, () => whileConnected(browser, this.openIn(browser, url, wish))); // prettier-ignore
      } catch (error) {
        if (attempt > 1) throw error;
        this.forget(browser);
        browser.close().catch(() => {});
      }
    }
  }

  private async openIn(
    browser: Chromium,
    url: string,
    wish: PageWish,
  ): Promise<{ context: BrowserContext; page: Page }> {
    const context = await browser.newContext(this.contextOptions(wish));
    const page = await context.newPage();
    if (wish.headers && url !== '') {
      const { proxy } = this;
      const login = proxy && { username: proxy.username, password: proxy.password };
      await sendHeaders(page, new URL(url).host, wish.headers, login);
    }
    return { context, page };
  }

  private contextOptions(wish: PageWish): BrowserContextOptions {
    return {
      viewport: { width: wish.width ?? viewport.width, height: wish.height ?? viewport.height },
      serviceWorkers: 'block',
      acceptDownloads: false,
      userAgent: this.needs.settings.userAgent,
    };
  }

  private async launched(): Promise<Chromium> {
    this.cancelIdle();
    if (this.current && !this.current.isConnected()) this.forget(this.current);
    const starting = (this.running ??= this.launch());
    try {
      const browser = await starting;
      if (this.running === starting) this.current = browser;
      return browser;
    } catch (error) {
      if (this.running === starting) this.running = undefined;
      throw error;
    }
  }

  /** Only the browser that is meant: another may have been started in its place meanwhile, and must not be lost. */
  private forget(browser: Chromium): void {
    if (this.current !== browser) return;
    this.current = undefined;
    this.running = undefined;
  }

  private async launch(): Promise<Chromium> {
    const { settings, egress, clock, log, folder } = this.needs;
    if (settings.browser.cdpUrl !== undefined)
      return (await loadPlaywright()).chromium.connectOverCDP(settings.browser.cdpUrl);
    this.refuseWhileBroken();
    this.proxy ??= await createEgressProxy({
      egress,
      clock,
      log,
      onRefused: (to, error) => this.failures.heard(to, error),
    });
    let browser: Chromium;
    try {
      browser = await launchBrowser({ settings: settings.browser, proxy: this.proxy, folder });
    } catch (error) {
      this.broken = { error: error as AppError, until: clock.now() + brokenMs };
      throw error;
    }
    browser.on('disconnected', () => this.forget(browser));
    return browser;
  }

  /** A browser that cannot start is not tried again for every page of a crawl. */
  private refuseWhileBroken(): void {
    if (this.broken && this.needs.clock.now() < this.broken.until) throw this.broken.error;
    this.broken = undefined;
  }

  /** Asks for a place; the longest waiting gets the next one. */
  private async enter(signal: AbortSignal | undefined): Promise<void> {
    if (this.stopped) throw new AppError('unavailable', 'The server is stopping.');
    if (this.active >= this.needs.settings.browser.pagesMax) {
      const place = Promise.withResolvers<void>();
      const { resolve } = place;
      const giveUp = () => {
        // Whoever no longer waits must not be called: the next in line would never be.
        const at = this.line.indexOf(resolve);
        if (at >= 0) this.line.splice(at, 1);
        resolve();
      };
      this.line.push(resolve);
      signal?.addEventListener('abort', giveUp, { once: true });
      await place.promise;
      signal?.removeEventListener('abort', giveUp);
    }
    if (this.stopped || signal?.aborted) {
      throw new AppError('unavailable', 'The work was given up before a browser was free.');
    }
    this.active++;
  }

  private leave(): void {
    this.active--;
    const next = this.line.shift();
    if (next) return next();
    if (this.active > 0) return;
    this.cancelIdle();
    this.cancelIdle = this.needs.clock.after(this.needs.settings.browser.idleMs, () => {
      if (this.active === 0) void this.end();
    });
  }

  private async end(): Promise<void> {
    this.cancelIdle();
    // Taken away at once: who asks for a browser from here on starts one with a proxy of its own.
    const { running, proxy } = this;
    this.running = undefined;
    this.current = undefined;
    this.proxy = undefined;
    const browser = await running?.catch(() => undefined);
    await browser?.close().catch(() => {});
    await proxy?.close();
    if (this.stopped) await this.lateProxy()?.close();
  }

  /** Made by a start that was under way when everything ended. */
  private lateProxy(): EgressProxy | undefined {
    return this.proxy;
  }
}

/** A browser that dies at the wrong moment leaves what it was asked for without an answer. */
async function whileConnected<T>(browser: Chromium, work: Promise<T>): Promise<T> {
  const gone = Promise.withResolvers<never>();
  const onGone = () => gone.reject(new AppError('unavailable', 'The browser ended.'));
  browser.once('disconnected', onGone);
  try {
    return await Promise.race([work, gone.promise]);
  } finally {
    browser.off('disconnected', onGone);
  }
}

async function pageSize(page: Page): Promise<{ width: number; height: number }> {
  const size = (await page.evaluate(
    '({ width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight })',
  )) as { width: number; height: number };
  return { width: Math.min(Math.max(size.width, 1), 4000), height: Math.max(size.height, 1) };
}
