/**
 * The published SaltGUI in a browser: every page, and the actions on it. `SALTGUI_DIR` names a
 * checkout of https://github.com/erwindon/SaltGUI.
 */
import type { ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import type { MinionFunction } from '#minion-protocol';
import { layOut } from '../helpers/file-tree.ts';
import { testWhere } from '../helpers/needs.ts';
import { type RunningApi, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { openPage } from './chromium.ts';
import {
  checkEvents,
  checkJobDetail,
  checkPage,
  hasSaltgui,
  logIn,
  realProblems,
  runInBox,
  saltguiFiles,
  showsText,
} from './saltgui.ts';

const gui = testWhere(hasSaltgui, 'SALTGUI_DIR and the package chromium');

/** Functions of the minions. Their results have the structure of a real minion's. */
const functions: Readonly<Record<string, MinionFunction>> = {
  'beacons.list': () => ({ diskusage: [{ '/': '63%' }, { interval: 120 }] }),
  'beacons.list_available': () => ({ beacons: ['diskusage', 'load'] }),
  'mine.get': () => ({ web1: ['10.0.0.5'] }),
  'mine.valid': () => ({ 'network.ip_addrs': {} }),
  'pillar.items': () => ({ colour: 'green', secret: 'planted' }),
  'pillar.obfuscate': () => ({ colour: '<str>', secret: '<str>' }),
  'schedule.list': () => ({ schedule: { nightly: { function: 'test.ping', hours: 24 } } }),
  'state.apply': () => ({
    'file_|-motd_|-/etc/motd_|-managed': {
      name: '/etc/motd',
      __id__: 'motd',
      __sls__: 'base',
      __run_num__: 0,
      result: true,
      changes: { diff: 'New file' },
      comment: 'File /etc/motd updated',
      duration: 1.5,
      start_time: '10:00:00.000000',
    },
  }),
};

/** Pages and the text that each must show. They are opened from the menu or by their address. */
const pages: readonly (readonly [hash: string, expected: RegExp])[] = [
  ['minions', /2 minions, 1 unaccepted key/],
  ['keys', /2 accepted keys, 1 unaccepted key/],
  ['grains', /2 minions/],
  ['grains-minion?minionid=web1', /os\s+"Debian"/],
  ['schedules', /web1\s+accepted\s+1 schedule/],
  ['schedules-minion?minionid=web1', /nightly/],
  ['pillars', /web1\s+accepted\s+2 pillars/],
  ['pillars-minion?minionid=web1', /colour/],
  ['mine', /web1\s+accepted\s+1 function/],
  ['mine-minion?minionid=web1', /network\.ip_addrs/],
  ['beacons', /web1\s+accepted\s+1 beacon/],
  ['beacons-minion?minionid=web1', /diskusage/],
  ['nodegroups', /nodegroup web — 1 minion/],
  ['jobs', /test\.echo/],
  ['highstate', /state\.apply/],
  ['templates', /reload/],
  ['events', /press/],
  ['reactors', /my\/tag/],
  ['orchestrations', /stop the web servers/],
  ['options', /session_user:\s+admin/],
  ['options', /Start Time/],
  ['issues', /Key for minion 'new1' is unaccepted/],
];

gui('SaltGUI shows every page, runs a command, follows events and accepts a key', async (t) => {
  t.timeout(240_000);
  const api = await startGui(t);
  const watched = await openPage(t);
  await logIn(watched.page, api);
  await runInBox(watched.page, '*', 'test.echo hello', 'web1');
  await runInBox(watched.page, 'web1', 'state.apply', 'web1');
  for (const [hash, expected] of pages) await checkPage(t, watched, api, hash, expected);
  await checkJobDetail(t, watched, api, 'test.echo', /hello/);
  await checkEvents(t, watched, api, api.master.events);
  await checkKeys(t, watched.page, api);
  t.deepEqual(realProblems(watched), []);
});

gui('SaltGUI without templates, nodegroups and reactors shows these pages empty', async (t) => {
  t.timeout(120_000);
  const api = await startGui(t, false);
  const watched = await openPage(t);
  await logIn(watched.page, api);
  await checkPage(t, watched, api, 'templates', /No templates/);
  await checkPage(t, watched, api, 'reactors', /No reactors/);
  await checkPage(t, watched, api, 'nodegroups', /2 minions/);
  t.deepEqual(realProblems(watched), []);
});

/** An SLS file for an orchestration. */
const deploy =
  "stop the web servers:\n  salt.function: [{name: service.stop}, {tgt: 'web*'}, {arg: [nginx]}]\n";

function startGui(t: ExecutionContext, isFilled = true): Promise<RunningApi> {
  const saltgui = {
    saltgui_templates: { reload: { description: 'all', target: '*', command: 'test.ping' } },
    saltgui_full_return: true,
    reactor: [{ 'my/tag': ['/srv/reactor/mine.sls'] }],
  };
  const files = temporaryDirectory(t);
  layOut(files, { 'deploy.sls': deploy });
  const fileRoots = { base: [files] };
  const config = isFilled ? { saltgui, nodegroups: { web: 'web*' }, fileRoots } : {};
  const options = saltguiFiles;
  return startApi(t, { pending: ['new1'], functions, options, config });
}

async function checkKeys(
  t: ExecutionContext,
  page: Page,
  { port, master }: RunningApi,
): Promise<void> {
  await page.goto(`http://127.0.0.1:${port}/#keys`);
  await page.reload();
  await showsText(page, /new1/);
  const row = page.locator('.route.current tr:has-text("new1")');
  await row.locator('.menu-dropdown').hover();
  await row.locator('text=/^Accept\\skey…$/').click();
  await page.click(".run-command input[type='submit']");
  await t.notThrowsAsync(showsText(page, /3 accepted keys/));
  const [key] = (await master.keys.list()).filter(({ id }) => id === 'new1');
  t.is(key?.state, 'accepted');
}
