// Manages the server's browser: starts it when needed, stops it when idle, and routes all its traffic through the guarded
// proxy. Each task gets its own context (no shared cookies) and a time limit, and is always cleaned up.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  Browser as Chromium,
  BrowserContext,
  BrowserContextOptions,
  Page,
} from 'playwright-core';
import { AppError } from '../../../errors.ts';
import { randomId } from '../../../runtime/id.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { createEgressProxy, type Egress, type EgressProxy } from '../../../runtime/egress/index.ts';
import type { Log } from '../../../runtime/log.ts';
import type { Service } from '../../../runtime/service.ts';
import type { Rendered, RenderOptions } from './rendered.ts';
import { prepare } from './actions.ts';
import { type Picture, fitPicture, pictureFolder, scaledPicture } from './pictures.ts';
import type { WebSettings } from '../settings.ts';
import { Failures } from './failures.ts';
import { acceptCertificates } from './certificates.ts';
import { sendHeaders } from './headers.ts';
import { launchBrowser, loadPlaywright } from './launch.ts';
import { pageHtml } from './page-html.ts';
import { within } from './within.ts';

interface BrowserDeps {
  settings: WebSettings;
  egress: Egress;
  clock: Clock;
  log: Log;
  /** Pictures are stored here, in one folder per job. */
  folder: string;
}

interface PageSessionOptions {
  timeoutMs: number;
  width?: number;
  height?: number;
  /** Sent only to the host of the page. */
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

interface PictureOptions {
  format?: 'jpeg' | 'png';
  quality?: number;
  fullPage?: boolean;
}

const viewport = { width: 1280, height: 800 };
/** After a failed launch, further launches are rejected for this time. */
const brokenMs = 30_000;
const openMs = 20_000;
const settleMs = 1500;
const maxCaptures = 20;
const captureMs = 150;

export class Browser implements Service {
  readonly name = 'browser';
  private readonly deps: BrowserDeps;
  private running: Promise<Chromium> | undefined;
  /** The resolved value of `running`. */
  private current: Chromium | undefined;
  private proxy: EgressProxy | undefined;
  private readonly failures = new Failures();
  private active = 0;
  private readonly waiting: (() => void)[] = [];
  private cancelIdle = () => {};
  private stopped = false;
  private broken: { error: AppError; until: number } | undefined;

  constructor(deps: BrowserDeps) {
    this.deps = deps;
  }

  async start(): Promise<void> {
    this.stopped = false;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    for (const next of this.waiting.splice(0)) next();
    await this.end();
  }

  /** Returns the HTML of a page after its scripts ran. */
  async render(
    url: string,
    options: PageSessionOptions & RenderOptions & { jobId: string },
  ): Promise<Rendered> {
    const start = this.deps.clock.now();
    return this.withPage(url, options, async (page) => {
      const failed = await prepare(page, options.actions ?? [], this.deps.clock);
      const html = await pageHtml(page);
      const picture = options.screenshot ? await this.picture(page, options.jobId, {}) : undefined;
      const ms = this.deps.clock.now() - start;
      return {
        html,
        url: page.url(),
        ms,
        ...(picture ? { screenshot: picture.path } : {}),
        ...(failed === undefined ? {} : { failed }),
      };
    });
  }

  async picture(page: Page, jobId: string, options: PictureOptions): Promise<Picture> {
    const type = options.format ?? 'jpeg';
    const quality = type === 'jpeg' ? { quality: options.quality ?? 60 } : {};
    const size = options.fullPage ? await pageSize(page) : page.viewportSize()!;
    const fit = fitPicture(size);
    const { clip, width, height } = fit;
    const area = options.fullPage ? { fullPage: true, clip } : {};
    const take = () =>
      fit.scale < 1
        ? scaledPicture(page, { format: type, ...quality, ...fit })
        : page.screenshot({ type, ...quality, ...area, animations: 'disabled' });
    const bytes = await this.capture(take);
    const folder = pictureFolder(this.deps.folder, jobId);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, `${randomId('')}.${type === 'jpeg' ? 'jpg' : 'png'}`);
    await writeFile(path, bytes, { mode: 0o600 });
    const notice = fit.notice === undefined ? {} : { notice: fit.notice };
    return { path, bytes, mimeType: `image/${type}`, width, height, ...notice };
  }

  /** Retries, because after a very tall picture the browser fails to capture for up to a second. */
  private async capture(take: () => Promise<Buffer>): Promise<Buffer> {
    for (let again = maxCaptures; ; again--) {
      try {
        return await take();
      } catch (error) {
        if (again === 0 || !/Unable to capture/.test((error as Error).message)) throw error;
        await this.deps.clock.sleep(captureMs);
      }
    }
  }

  /** Opens a page, navigates to the URL unless it is empty, runs the work and closes everything. */
  async withPage<T>(
    url: string,
    options: PageSessionOptions,
    work: (page: Page, status: number | undefined) => Promise<T>,
  ): Promise<T> {
    await this.enter(options.signal);
    try {
      const { context, page } = await this.open(url, options);
      try {
        return await this.withAbort(options, async () => {
          const status = url === '' ? undefined : await this.visit(page, url, options.timeoutMs);
          return await work(page, status);
        });
      } finally {
        await context.close().catch(() => {});
      }
    } catch (error) {
      throw this.failures.explain(error, url, this.active === 1);
    } finally {
      this.leave();
    }
  }

  /** Navigates to a URL and returns the response status. */
  async visit(page: Page, url: string, timeoutMs: number): Promise<number | undefined> {
    this.failures.forget(url);
    const response = await page.goto(url, { waitUntil: 'domcontentloaded', timeout: timeoutMs });
    const { 'x-errand-error': code, 'x-errand-mark': mark } = response?.headers() ?? {};
    // Sites could send the same headers, but only the proxy knows its mark.
    if (code !== undefined && this.proxy && mark === this.proxy.mark)
      throw new AppError(code, (await response!.text()).trim());
    // Limits the wait for pages whose network never becomes idle.
    await page.waitForLoadState('networkidle', { timeout: settleMs }).catch(() => {});
    return response?.status();
  }

  private async withAbort<T>(options: PageSessionOptions, work: () => Promise<T>): Promise<T> {
    const aborted = new Promise<never>((_, reject) => {
      const stop = () => reject(new AppError('unavailable', 'The browser task was aborted.'));
      if (options.signal?.aborted) stop();
      options.signal?.addEventListener('abort', stop, { once: true });
    });
    aborted.catch(() => {});
    return this.withTimeLimit(options.timeoutMs + settleMs, () => Promise.race([work(), aborted]));
  }

  private async withTimeLimit<T>(limitMs: number, work: () => Promise<T>): Promise<T> {
    const late = () => new AppError('timeout', `The browser did not finish within ${limitMs} ms.`);
    return within({ clock: this.deps.clock, limitMs, late }, work);
  }

  /** Replaces the browser once if it died while idle. */
  private async open(
    url: string,
    options: PageSessionOptions,
  ): Promise<{ context: BrowserContext; page: Page }> {
    for (let attempt = 1; ; attempt++) {
      const browser = await this.ensureLaunched();
      try {
        // A browser that lost some of its processes may never respond.
        return await this.withTimeLimit(openMs, () => whileConnected(browser, this.openIn(browser, url, options))); // prettier-ignore
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
    options: PageSessionOptions,
  ): Promise<{ context: BrowserContext; page: Page }> {
    const context = await browser.newContext(this.contextOptions(options));
    const page = await context.newPage();
    const isTrusted = this.deps.egress.trustsCertificate;
    if (isTrusted) {
      const accept = (tab: Page) =>
        acceptCertificates(tab, isTrusted, (at, reason) =>
          this.failures.noteCertificate(at, reason),
        );
      await accept(page);
      context.on('page', (tab) => void accept(tab).catch(() => {}));
    }
    if (options.headers && url !== '') {
      const { proxy } = this;
      const login = proxy && { username: proxy.username, password: proxy.password };
      await sendHeaders(page, new URL(url).host, options.headers, login);
    }
    return { context, page };
  }

  private contextOptions(options: PageSessionOptions): BrowserContextOptions {
    return {
      viewport: {
        width: options.width ?? viewport.width,
        height: options.height ?? viewport.height,
      },
      serviceWorkers: 'block',
      acceptDownloads: false,
      userAgent: this.deps.settings.userAgent,
    };
  }

  private async ensureLaunched(): Promise<Chromium> {
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

  /** Forgets this browser only, because a replacement may already be running. */
  private forget(browser: Chromium): void {
    if (this.current !== browser) return;
    this.current = undefined;
    this.running = undefined;
  }

  private async launch(): Promise<Chromium> {
    const { settings, egress, clock, log, folder } = this.deps;
    if (settings.browser.cdpUrl !== undefined)
      return (await loadPlaywright()).chromium.connectOverCDP(settings.browser.cdpUrl);
    this.rejectWhileBroken();
    this.proxy ??= await createEgressProxy({
      egress,
      clock,
      log,
      onRefused: (to, error) => this.failures.noteRefusal(to, error),
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

  /** Prevents a launch attempt for every page of a crawl when the browser cannot start. */
  private rejectWhileBroken(): void {
    if (this.broken && this.deps.clock.now() < this.broken.until) throw this.broken.error;
    this.broken = undefined;
  }

  /** Waits for a free slot, in order of arrival. */
  private async enter(signal: AbortSignal | undefined): Promise<void> {
    if (this.stopped) throw new AppError('unavailable', 'The server is stopping.');
    if (this.active >= this.deps.settings.browser.maxPages) {
      const place = Promise.withResolvers<void>();
      const { resolve } = place;
      const giveUp = () => {
        // Removes the aborted waiter, or it would consume the slot of the next one.
        const at = this.waiting.indexOf(resolve);
        if (at >= 0) this.waiting.splice(at, 1);
        resolve();
      };
      this.waiting.push(resolve);
      signal?.addEventListener('abort', giveUp, { once: true });
      await place.promise;
      signal?.removeEventListener('abort', giveUp);
    }
    if (this.stopped || signal?.aborted) {
      throw new AppError('unavailable', 'The task was aborted before a browser was free.');
    }
    this.active++;
  }

  private leave(): void {
    this.active--;
    const next = this.waiting.shift();
    if (next) return next();
    if (this.active > 0) return;
    this.cancelIdle();
    this.cancelIdle = this.deps.clock.after(this.deps.settings.browser.idleMs, () => {
      if (this.active === 0) void this.end();
    });
  }

  private async end(): Promise<void> {
    this.cancelIdle();
    // Cleared immediately, so that later callers start a new browser with its own proxy.
    const { running, proxy } = this;
    this.running = undefined;
    this.current = undefined;
    this.proxy = undefined;
    const browser = await running?.catch(() => undefined);
    await browser?.close().catch(() => {});
    await proxy?.close();
    if (this.stopped) await this.lateProxy()?.close();
  }

  /** The proxy of a launch that was in progress during the stop. */
  private lateProxy(): EgressProxy | undefined {
    return this.proxy;
  }
}

/** Rejects when the browser disconnects, because pending calls would never settle. */
async function whileConnected<T>(browser: Chromium, work: Promise<T>): Promise<T> {
  const gone = Promise.withResolvers<never>();
  const onGone = () => gone.reject(new AppError('unavailable', 'The browser closed unexpectedly.'));
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
