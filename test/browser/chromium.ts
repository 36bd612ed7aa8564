/** Starts an installed headless Chromium for tests of pages. */
import { existsSync } from 'node:fs';
import type { ExecutionContext } from 'ava';
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { waitMs } from '../helpers/deadline.ts';

const candidates = [
  process.env.CHROMIUM ?? '',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** Path of Chromium, or `undefined` if it was not found. `CHROMIUM` can name it. */
export const chromiumPath: string | undefined = candidates.find(
  (path) => path !== '' && existsSync(path),
);

/** A page with a record of its errors. */
export interface WatchedPage {
  readonly page: Page;
  /** Errors of scripts, and failed responses. */
  readonly problems: string[];
}

/** Opens a page. The browser is closed at the end of the test. */
export async function openPage(
  t: ExecutionContext,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const browser = await chromium.launch({
    ...(chromiumPath === undefined ? {} : { executablePath: chromiumPath }),
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  t.teardown(() => browser.close());
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(waitMs);
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') {
      problems.push(`console: ${message.text()} ${message.location().url}`);
    }
  });
  page.on('response', (response) => {
    const { pathname } = new URL(response.url());
    if (response.status() >= 400) problems.push(`${response.status()}: ${pathname}`);
  });
  return { page, problems };
}
