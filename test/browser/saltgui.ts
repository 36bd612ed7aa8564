/** SaltGUI as it is published, in a browser: what tests of it have in common. */
import type { ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import type { MasterApi } from '#master';
import { password } from '../helpers/salt-api.ts';
import { chromiumPath, type WatchedPage } from './chromium.ts';

const directory = process.env.SALTGUI_DIR;

/** Whether there are a browser and a checkout of SaltGUI, which `SALTGUI_DIR` names. */
export const hasSaltgui: boolean = directory !== undefined && chromiumPath !== undefined;

/** Options of an API that serves it. */
export const saltguiFiles: { readonly app: string; readonly static: string } = {
  app: `${directory}/saltgui/index.html`,
  static: `${directory}/saltgui/static`,
};

/** Where it is served. */
interface Served {
  readonly port: number;
}

/** Files that a site may add; SaltGUI looks whether they are there. */
const optional = /\/static\/(?:salt-auth|salt-motd|minions)\.(?:txt|html)/;

/** The eauth is one that its list does not have; a site names its own in salt-auth.txt. */
export async function logIn(page: Page, { port }: Served): Promise<void> {
  await page.route('**/static/salt-auth.txt', (route) => route.fulfill({ body: 'sharedsecret' }));
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.fill('#username', 'admin');
  await page.fill('#password', password);
  await page.selectOption('form select', 'sharedsecret');
  await page.click('#login-button');
  await page.waitForURL(/#minions/);
}

/** The "manual run" that every page has. @param shown what comes when it is done */
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

/** Loads a page, waits for what it shows, and sees that nothing went wrong. */
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

/** Goes from the list of jobs to one, and sees what it returned. */
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

/** Has events listed, and fires one: what stands in it is text. */
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

/** Resolves when the page shows a text. */
export function showsText(page: Page, expected: RegExp): Promise<unknown> {
  return page.waitForFunction(`${expected}.test(${shownText})`, undefined, { timeout: 30_000 });
}

/** What went wrong, but for files that need not be there. */
export function realProblems({ problems }: WatchedPage): string[] {
  return problems.filter((problem) => !optional.test(problem));
}
