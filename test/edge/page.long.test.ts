/** Runs the commands of docs/edge.md in order, with its configuration. */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { parse } from 'yaml';
import type { ReleaseState } from '#edge';
import { EmbeddedMinions } from '../../examples/embedded-minions.ts';
import { runCli } from '../cli/run-cli.ts';
import { blocksRunBy, codeBlocks, linesOf } from '../helpers/markdown.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import {
  eventually,
  isServing,
  siteInfo,
  startCentre,
  startMaster,
  stateDirOf,
} from './edge-stage.ts';
import { siteSection, sitesSection } from './sections.ts';

const document = 'docs/edge.md';
const blocks = blocksRunBy('test/edge/page.long.test.ts', document);

/** Returns the content of the configuration file with which a block of YAML begins. */
function fileOf(name: string, mark: string): string {
  const found = codeBlocks(document).find(
    ({ language, text }) =>
      language === 'yaml' && text.startsWith(`# ${name}`) && text.includes(mark),
  );
  if (found === undefined) throw new Error(`${document} has no block for ${name} with ${mark}`);
  return found.text;
}

const catalog = `
db.promote:
  description: Makes a database the primary one.
  function: test.promote
  reviewed: it only exists in this test
  idempotent: true
plans:
  db.failover:
    description: Makes the spare database the primary one.
    groups: { db: { description: The databases. } }
    steps: { promote: { command: db.promote, group: db } }
`;

test('the commands of the page about sites succeed in order', async (t) => {
  t.timeout(120_000);
  const directory = temporaryDirectory(t);
  const source = path.join(directory, 'salt-sites');
  mkdirSync(source);
  const inPlace = (text: string): string => text.replaceAll('/etc/salt-sites', source);
  writeFileSync(`${source}/master`, inPlace(fileOf('/etc/salt-sites/master', 'eauth: centre')));
  writeFileSync(`${source}/orders.yml`, fileOf('/etc/salt-sites/orders.yml', 'plans'));
  writeFileSync(`${source}/catalog.yml`, catalog);
  const { acl } = parse(fileOf('/etc/salt/master of the centre', 'site.order')).saltbridge;
  const rules = Object.entries(acl.rules).map(([name, rule]) => ({
    name,
    effect: 'allow',
    ...Object(rule),
  }));
  const centre = await startCentre(t, { sites: sitesSection({ source }), acl: { rules } });
  const etc = path.join(directory, 'site');
  mkdirSync(etc);
  const section = { name: 'paris', centre: centre.url };
  writeFileSync(
    `${etc}/master`,
    JSON.stringify({
      root_dir: etc,
      saltbridge: { state_dir: stateDirOf(etc), site: section },
    }),
  );
  let ticket = '';
  let { server: siteServer } = centre;
  const minions = new EmbeddedMinions();
  t.teardown(() => minions.close());
  const startSite = async (): Promise<void> => {
    const started = await startMaster(t, { site: siteSection(section), autoAccept: true }, etc);
    siteServer = started.server;
    await eventually(async () => (await siteInfo(centre, 'paris')).isConnected);
  };
  const startMinion = async (): Promise<void> => {
    await eventually(() => isServing({ server: siteServer }), 'the site serves');
    const { requestPort } = await siteServer.master.status();
    const functions = { 'test.promote': () => true };
    const { connected } = await minions.start({ directory: etc, requestPort }, 'db1', functions);
    await connected;
  };
  const lines = blocks.flatMap(linesOf);
  t.true(lines.length > 10);
  for (const line of lines) {
    const [command = ''] = line
      .replace('https://centre.example.org:8000', centre.url)
      .replace('/root/site-keys', `${directory}/keys`)
      .replace('ticket-of-paris', ticket)
      .split(' > ');
    const isJoin = command.includes(' site join ');
    const words = command.match(/'[^']*'|\S+/g) ?? [];
    const argv = words.slice(1).map((word) => word.replaceAll("'", ''));
    const server = command.includes('--eauth centre') ? siteServer : centre.server;
    const { code, stdout, stderr } = await runCli(isJoin ? [...argv, '-c', etc] : argv, {
      openExtension: async (_directory, name) => centre.rpc(name),
      openApi: async () => server.master,
    });
    t.is(code, 0, `${line}: ${stdout}${stderr}`);
    if (command.includes(' site ticket ')) ticket = stdout.trim();
    if (isJoin) await startSite();
    if (command.includes(' site push ')) {
      await eventually(async () => {
        const [state] = await centre.rpc('site').call<readonly ReleaseState[]>('releases.list');
        return state?.installed === 1 && (await siteInfo(centre, 'paris')).isConnected;
      }, 'the installation of the release');
      await startMinion();
      const minionsOf = (name: string): Promise<readonly object[]> =>
        Array.fromAsync(centre.rpc('site').stream<object>('minions', { name }));
      await eventually(async () => (await minionsOf('paris')).length > 0, 'the facts of db1');
    }
    if (command.includes('--wait')) t.regex(stdout, /^paris done: 1 succeeded$/m, line);
  }
});
