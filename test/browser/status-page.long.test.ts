/**
 * The status page in a browser: live updates, use by keyboard, both colour schemes, and no markup
 * from data.
 */
import type { Page } from 'playwright-core';
import { testWhere } from '../helpers/needs.ts';
import { password, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { chromiumPath, openPage } from './chromium.ts';

const browser = testWhere(chromiumPath !== undefined, 'the package chromium');
const planted = '<img src=x onerror=alert(1)>';

async function logIn(page: Page, { port }: RunningApi, username = 'admin'): Promise<void> {
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.waitForSelector('input[name="username"]:focus');
  await page.keyboard.type(username);
  await page.keyboard.press('Tab');
  await page.keyboard.type(password);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#master');
}

browser('the page follows events, and keys can be decided on by keyboard', async (t) => {
  t.timeout(120_000);
  const api = await startApi(t, {
    pending: ['new1', 'new2'],
    silent: ['gone1'],
    options: { eauths: ['sharedsecret'] },
    functions: {
      'my.event': async (_call, { fire }) => {
        await fire(`my/${planted}`, { text: planted });
        return true;
      },
    },
  });
  const { page, problems } = await openPage(t);
  page.on('dialog', () => t.fail('something of a minion was run'));
  await logIn(page, api);
  await page.waitForSelector('#live:text-is("live")');
  t.regex((await page.textContent('#keys')) ?? '', /new1[\s\S]*new2/);
  t.regex((await page.textContent('#minions')) ?? '', /2 listen, 1 do not[\s\S]*gone1/);

  const token = await api.login();
  await api.run(token, { client: 'local_async', tgt: '*', fun: 'test.sleep', arg: [8] });
  await page.waitForSelector('#jobs progress[max="3"]');
  await api.run(token, { client: 'local', tgt: 'web1', fun: 'my.event' });
  await page.waitForSelector('#denials tbody tr');
  t.true((await page.textContent('#denials'))?.includes(planted));
  t.is(await page.locator('main img').count(), 0);
  await page.locator('#denials >> text=explain').first().focus();
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=The signal would now be denied');
  t.true((await page.textContent('main'))?.includes(planted));
  await page.goBack();

  await page.locator('button[aria-label="accept the key of new1"]').focus();
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=The key was accepted.');
  await page.locator('button[aria-label="reject the key of new2"]').focus();
  await page.keyboard.press('Space');
  await page.waitForSelector('text=The key was rejected.');
  const states = new Map((await api.master.keys.list()).map(({ id, state }) => [id, state]));
  t.deepEqual([states.get('new1'), states.get('new2')], ['accepted', 'rejected']);
  await page.waitForSelector('#keys >> text=No key is pending.');
  await page.click('text=Log out');
  await page.waitForSelector('text=Password');
  t.deepEqual(problems, []);
});

browser('a re-rendered section keeps the keyboard focus', async (t) => {
  const api = await startApi(t, {
    pending: ['new1', 'new2'],
    options: { eauths: ['sharedsecret'] },
  });
  const { page } = await openPage(t);
  await logIn(page, api);
  await page.waitForSelector('#live:text-is("live")');
  const button = page.locator('button[aria-label="accept the key of new1"]');
  await button.focus();
  await api.master.keys.reject({ match: 'new2' });
  await page.waitForSelector('#keys >> text=Pending keys (1)');
  t.is(
    await page.evaluate('document.activeElement.getAttribute("aria-label")'),
    'accept the key of new1',
  );
});

for (const colorScheme of ['light', 'dark'] as const) {
  browser(`text can be read on its ground, ${colorScheme}`, async (t) => {
    const api = await startApi(t, { options: { eauths: ['sharedsecret'] } });
    const { page } = await openPage(t, { colorScheme });
    await logIn(page, api);
    const colours = await page.evaluate(
      '[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]',
    );
    const [text = 0, ground = 0] = (Array.isArray(colours) ? colours : []).map((it) =>
      luminance(String(it)),
    );
    const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    t.true(contrast > 7, `${contrast}`);
    t.is(ground < text, colorScheme === 'dark');
  });
}

/** Returns the relative luminance of a colour, as WCAG defines it. */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = (colour.match(/[\d.]+/g) ?? []).map((value) => {
    const part = Number(value) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
