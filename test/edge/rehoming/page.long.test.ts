/** Runs the commands of docs/site-rehoming.md in order, at two centres with a site. */

import { mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import test from 'ava';
import { runCli } from '../../cli/run-cli.ts';
import { blocksRunBy, linesOf } from '../../helpers/markdown.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { initKeys } from '../bundles/release-stage.ts';
import {
  type Centre,
  eventually,
  siteInfo,
  siteStatus,
  startCentre,
  startSite,
} from '../edge-stage.ts';

const blocks = blocksRunBy('test/edge/rehoming/page.long.test.ts', 'docs/site-rehoming.md');

test('the commands of the page about another centre succeed in order, and the site changes', async (t) => {
  t.timeout(120_000);
  const directory = temporaryDirectory(t);
  const old = await startCentre(t);
  const next = await startCentre(t);
  const run = async (centre: Centre, argv: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await runCli([...argv], {
      openExtension: async (_directory, name) => centre.rpc(name),
    });
    t.is(code, 0, `${argv.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  const [first, second] = [`${directory}/keys`, `${directory}/keys-2`];
  await run(old, ['site', 'keys', 'init', first]);
  await initKeys(next, 'centre-2');
  mkdirSync(second);
  const etc = `${directory}/etc`;
  mkdirSync(etc);
  writeFileSync(`${etc}/master`, '');
  renameSync(`${first}/root-2.json`, `${second}/root-2.json`);
  renameSync(`${first}/root-3.json`, `${directory}/root-3.json`);
  t.deepEqual(readdirSync(first).toSorted(), ['root-1.json', 'targets.json']);
  const site = await startSite(t, old, 'paris');
  await eventually(async () => (await siteStatus(site)).isConnected);
  const inPlace = (word: string): string =>
    word
      .replace('https://next.example.org:8000', next.url)
      .replace('/etc/salt-next', etc)
      .replace('/root/site-keys-2', second)
      .replace('/root/site-keys', first)
      .replaceAll("'", '')
      .replace(/^86400$/, '3')
      .replace(/^(?:next\.json|half|statement|sites\.json)$/, `${directory}/$&`);
  const lines = blocks.flatMap(linesOf);
  t.true(lines.length > 6);
  const outputs = new Map<string, string>();
  for (const line of lines) {
    const [command = '', output] = line.split(' > ');
    const argv = command.split(' ').slice(1).map(inPlace);
    const stdout = await run(line.includes('/etc/salt-next') ? next : old, argv);
    if (output !== undefined) writeFileSync(inPlace(output), stdout);
    outputs.set(argv.slice(1, 3).join(' '), stdout);
  }
  t.regex(outputs.get('rehome import') ?? '', /^paris imported$/m);
  t.regex(outputs.get('list -c') ?? '', /^paris expected rehomed from [0-9a-f-]{36}$/m);
  await eventually(async () => (await siteInfo(old, 'paris')).statement?.state === 'held');
  t.regex(await run(old, ['site', 'rehome', 'list']), /^ {2}paris held$/m);
  t.regex(await run(old, ['site', 'show', 'paris']), /^statement +held: to centre-2 after 3 s$/m);
  const { server } = old;
  await server.close();
  await eventually(async () => (await siteStatus(site)).centre === next.url, 'the next centre');
  await eventually(async () => (await siteStatus(site)).isConnected, 'the connection');
  t.regex(
    await run(next, ['site', 'list']),
    /^paris joined connected .* rehomed from [0-9a-f-]{36}$/m,
  );
  t.regex(await run(next, ['site', 'show', 'paris']), /^from +[0-9a-f-]{36}, rehomed 20/m);
});

test('a statement needs exactly one of --after and --now, and the keys of this centre', async (t) => {
  const directory = temporaryDirectory(t);
  const old = await startCentre(t);
  await initKeys(old, 'centre-1');
  const run = async (
    argv: readonly string[],
  ): Promise<{ code: number; stdout: string; stderr: string }> =>
    runCli([...argv], { openExtension: async (_directory, name) => old.rpc(name) });
  const { stdout: offer } = await run(['site', 'rehome', 'offer', '--url', old.url]);
  writeFileSync(`${directory}/offer`, offer);
  mkdirSync(`${directory}/keys`);
  const sign = [
    'site',
    'rehome',
    'sign',
    '*',
    '--to',
    `${directory}/offer`,
    '--keys',
    `${directory}/keys`,
  ];
  for (const more of [[], ['--now', '--after', '5']]) {
    const { code, stderr } = await run([...sign, ...more]);
    t.not(code, 0);
    t.regex(stderr, /exactly one of --after and --now/);
  }
  const { code, stderr } = await run([...sign, '--now']);
  t.not(code, 0);
  t.regex(stderr, /no root key of this centre/);
  const { stderr: malformed } = await run(['site', 'rehome', 'publish', `${directory}/offer`]);
  t.regex(malformed, /not a statement/);
});
