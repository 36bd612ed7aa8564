/** Common functions for tests of the published SaltGUI in a browser. */
import type { ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import type { MasterApi } from '#master';
import { password } from '../helpers/salt-api.ts';
import { chromiumPath, type WatchedPage } from './chromium.ts';

const directory = process.env.SALTGUI_DIR;

/** Whether a browser is installed, and `SALTGUI_DIR` names a checkout of SaltGUI. */
export const hasSaltgui: boolean = directory !== undefined && chromiumPath !== undefined;

/** Options with which an API serves SaltGUI. */
export const saltguiFiles: { readonly app: string; readonly static: string } = {
  app: `${directory}/saltgui/index.html`,
  static: `${directory}/saltgui/static`,
};

/** Address at which SaltGUI is served. */
interface Served {
  readonly port: number;
}

/** Files that a site may add. SaltGUI checks whether they exist. */
const optional = /\/static\/(?:salt-auth|salt-motd|minions)\.(?:txt|html)/;

/** Logs in. The eauth is not in SaltGUI's list; a site would add it in salt-auth.txt. */
export async function logIn(page: Page, { port }: Served): Promise<void> {
  await page.route('**/static/salt-auth.txt', (route) => route.fulfill({ body: 'sharedsecret' }));
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.fill('#username', 'admin');
  await page.fill('#password', password);
  await page.selectOption('form select', 'sharedsecret');
  await page.click('#login-button');
  await page.waitForURL(/#minions/);
}

/**
 * Runs a command in the "manual run" box that every page has.
 * @param shown - text that appears when it is done
 */
export async function runInBox(
  page: Page,
  target: string,
  command: string,
  shown: string,
): Promise<void> {
  await page.click('#button-manual-run');
  await page.fill('#target', target);
  await page.fill('#command', command);
  await page.click(".run-command input[type='submit']");
  await page.waitForFunction(
    `document.querySelector('.run-command pre').innerText.includes('${shown}')`,
  );
  await page.click('#cmd-close-button');
}

/** Opens a page, waits for its text, and checks that there were no errors. */
export async function checkPage(
  t: ExecutionContext,
  watched: WatchedPage,
  { port }: Served,
  hash: string,
  expected: RegExp,
): Promise<void> {
  const [name, query] = hash.split('?');
  const { page } = watched;
  await page.goto(`http://127.0.0.1:${port}/${query === undefined ? '' : `?${query}`}#${name}`);
  await page.reload();
  const isShown = await showsText(page, expected).catch(() => undefined);
  const found = isShown === undefined ? await page.evaluate(shownText) : '';
  t.truthy(isShown, `${hash}: ${expected} not in\n${found}\n${watched.problems.join('\n')}`);
  t.deepEqual(realProblems(watched), [], hash);
}

/** Opens a job from the list of jobs, and checks its returns. */
export async function checkJobDetail(
  t: ExecutionContext,
  { page }: WatchedPage,
  { port }: Served,
  fun: string,
  returned: RegExp,
): Promise<void> {
  await page.goto(`http://127.0.0.1:${port}/#jobs`);
  await page.reload();
  await showsText(page, new RegExp(fun.replaceAll('.', '\\.')));
  await page.locator(`.route.current >> text=${fun}`).first().click();
  await t.notThrowsAsync(showsText(page, returned), fun);
}

/** Opens the list of events and fires an event. Its data must be shown as text. */
export async function checkEvents(
  t: ExecutionContext,
  { page }: WatchedPage,
  { port }: Served,
  events: Pick<MasterApi['events'], 'fire'>,
): Promise<void> {
  await page.goto(`http://127.0.0.1:${port}/#events`);
  await page.reload();
  await showsText(page, /press/);
  await page.locator('.route.current >> text=⯈').first().click();
  await showsText(page, /waiting|press/i);
  await events.fire('planted/tag', { text: '<img src=x onerror=alert(1)>' });
  await t.notThrowsAsync(showsText(page, /planted\/tag/));
}

const shownText = 'document.querySelector(".route.current")?.innerText ?? ""';

/** Waits until the page shows a text. */
export function showsText(page: Page, expected: RegExp): Promise<unknown> {
  return page.waitForFunction(`${expected}.test(${shownText})`);
}

/** Returns the problems of a page, except those about optional files. */
export function realProblems({ problems }: WatchedPage): string[] {
  return problems.filter((problem) => !optional.test(problem));
}
