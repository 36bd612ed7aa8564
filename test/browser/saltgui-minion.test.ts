/**
 * SaltGUI's pages with a real minion. `SALTGUI_DIR` names a checkout of SaltGUI, `SALT_MINION` the
 * program of the minion.
 */
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import type { MasterApi } from '#master';
import { createSaltApi } from '#salt-api';
import { layOut } from '../helpers/file-tree.ts';
import { testWhere } from '../helpers/needs.ts';
import { password } from '../helpers/salt-api.ts';
import { EventLog } from '../interop/event-log.ts';
import { Fleet } from '../interop/fleet.ts';
import { MasterHome } from '../interop/our-master.ts';
import { minionPrograms } from '../interop/programs.ts';
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
} from './saltgui.ts';

const [program = ''] = minionPrograms;
const gui = testWhere(
  hasSaltgui && program !== '',
  'SALT_MINION, SALTGUI_DIR and the package chromium',
);

/** Configuration of the minion that provides data for pages about it. */
const extra = `
mine_functions:
  test.ping: []
beacons:
  status:
    - interval: 600
    - loadavg: [1-min]
schedule:
  nightly:
    function: test.ping
    hours: 24
`;

/** Pages and the text that each must show. */
function pagesOf(id: string): readonly (readonly [hash: string, expected: RegExp])[] {
  const named = id.replaceAll('.', '\\.');
  const row = (what: string): RegExp => new RegExp(`${named}\\s+accepted\\s+${what}`);
  return [
    ['minions', /1 minion\b/],
    ['minions', new RegExp(`${named}[^]*accepted`)],
    ['keys', /1 accepted key\b/],
    ['grains', /1 minion\b/],
    [`grains-minion?minionid=${id}`, /saltversion\s+"\d+/],
    ['schedules', row('1 schedule')],
    [`schedules-minion?minionid=${id}`, /nightly/],
    ['pillars', row('2 pillars')],
    [`pillars-minion?minionid=${id}`, /colour/],
    ['mine', row('1 function')],
    [`mine-minion?minionid=${id}`, /test\.ping/],
    ['beacons', row('1 beacon')],
    [`beacons-minion?minionid=${id}`, /status/],
    ['nodegroups', /nodegroup all — 1 minion/],
    ['jobs', /test\.echo/],
    ['highstate', /state\.apply/],
    ['templates', /reload/],
    ['events', /press/],
    ['reactors', /my\/tag/],
    // SaltGUI's page of these fails if there is more than one file.
    ['orchestrations', /No orchestrations/],
    ['options', /session_user:\s+admin/],
    ['options', /Start Time/],
    ['issues', /(?:No|\d+) issues?\b(?![\s\S]*\(loading info)/],
  ];
}

gui('SaltGUI shows every page of a real minion', async (t) => {
  t.timeout(600_000);
  const gui = await start(t);
  const watched = await openPage(t);
  await logIn(watched.page, gui);
  await runInBox(watched.page, '*', 'test.echo hello', gui.id);
  await runInBox(watched.page, gui.id, 'state.apply hello', gui.id);
  for (const [hash, expected] of pagesOf(gui.id)) await checkPage(t, watched, gui, hash, expected);
  await checkJobDetail(t, watched, gui, 'test.echo', /hello/);
  await checkJobDetail(t, watched, gui, 'state.apply', /say hello/);
  await checkEvents(t, watched, gui, gui.master.events);
  t.deepEqual(realProblems(watched), []);
});

interface RunningGui {
  readonly port: number;
  /** Id of the minion. */
  readonly id: string;
  readonly master: MasterApi;
}

/** Starts a master with one real minion, and its API. */
async function start(t: ExecutionContext): Promise<RunningGui> {
  const home = await MasterHome.create({
    externalAuth: { sharedsecret: { admin: ['.*', '@runner', '@wheel', '@jobs'] } },
    eauth: { sharedsecret: password },
    nodegroups: { all: '*' },
    // Timeouts are long, because machines that run tests may be slow.
    timeout: 60,
    gatherJobTimeout: 20,
    saltgui: {
      saltgui_templates: { reload: { description: 'all', target: '*', command: 'test.ping' } },
      saltgui_full_return: true,
      reactor: [{ 'my/tag': ['/srv/reactor/mine.sls'] }],
    },
  });
  t.teardown(() => home.dispose());
  const files = path.join(home.directory, 'files');
  layOut(files, {
    'hello.sls': 'say hello:\n  test.nop: []\n',
  });
  const { api: master, close } = await home
    .with({ fileRoots: { base: [files] } })
    .startHere(async () => ({ colour: 'green', secret: 'planted' }));
  t.teardown(close);
  const events = new EventLog(await master.events.subscribe());
  const fleet = await Fleet.create({ ...home.ports, extra }, [program]);
  t.teardown(() => fleet.dispose());
  await fleet.enrol(master, events);
  const api = await createSaltApi(master, { host: '127.0.0.1', ...saltguiFiles });
  t.teardown(() => api.close());
  const [id = ''] = fleet.ids;
  return { id, master, port: (await api.listen()).port };
}
