/** Inputs of the pillars of sites at the centre. */

import path from 'node:path';
import test from 'ava';
import type { InputsOfSites } from '#edge';
import { compilePillars, grainsOf, layNodeKeys, nodesOf } from '../campaigns/edge/nodes.ts';
import { runCli } from '../cli/run-cli.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { writeFiles } from './bundles/release-stage.ts';
import { eventually, startCentre, startSite } from './edge-stage.ts';
import { HostProbe } from './host-probe.ts';
import { batchOf, entryOf, joinRaw, RawLink } from './raw-site.ts';

const pillar = {
  'pillar/top.sls': "base: {'*': [all]}\n",
  'pillar/all.sls': [
    'name: {{ grains.id }}',
    'role: {{ grains.role }}',
    'os: {{ grains.os }}',
    'serial: s{{ grains.serialnumber }}',
    '',
  ].join('\n'),
};

test('site inputs shows how many pillars a site has compiled, and why they differ', async (t) => {
  const centre = await startCentre(t);
  const proxy = await TcpProxy.start(centre.port);
  t.teardown(() => proxy.close());
  const tree = temporaryDirectory(t);
  writeFiles(tree, pillar);
  const probe = new HostProbe();
  const nodes = nodesOf('north', 24);
  const options = {
    pkiDir: '/pki',

    pillarRoots: { base: [`${tree}/pillar`] },
    extensions: [probe.extension],
  };
  const url = `http://127.0.0.1:${proxy.port}`;
  const site = await startSite(t, centre, 'north', options, url, (stateDir) =>
    layNodeKeys(`${path.dirname(stateDir)}/pki`, nodes),
  );
  await joinRaw(t, centre, 'south');
  await probe.keepGrains(grainsOf(nodes));
  t.like(await compilePillars(site.server, nodes), { renderings: 12, wrong: 0 });
  // The site compares its inputs with its last report when it connects.
  proxy.close();
  proxy.resume();
  const inputs = (): Promise<InputsOfSites> =>
    centre.rpc('site').call<InputsOfSites>('inputs', { name: 'north' });
  await eventually(async () => (await inputs()).shared === 12, 'the report');
  const { sites, grains } = await inputs();
  t.deepEqual(
    grains.map(({ grain, values, pillars }) => [grain, values, pillars]),
    [
      ['role', 4, 12],
      ['os', 3, 12],
    ],
  );
  t.true((sites[0]?.at ?? 0) > 0);
  const openExtension = async (_directory: string, name: string) => centre.rpc(name);
  const { stdout } = await runCli(['site', 'inputs'], { openExtension });
  t.regex(stdout, /^Shared pillars: 12\n/);
  t.regex(stdout, /^ {2}role: 4 values in 12 pillars$/m);
  t.regex(stdout, /^ {2}north: 12 shared pillars, 0 of one minion, as of \d{4}-/m);
  t.regex(stdout, /^ {2}south: not reported yet$/m);
  const { stdout: json } = await runCli(['site', 'inputs', 'north', '--json'], { openExtension });
  t.like(JSON.parse(json), { shared: 12, own: 0, unknown: [] });
  const { stderr } = await runCli(['site', 'inputs', 'west'], { openExtension });
  t.regex(stderr, /unknown site/);
  await centre.rpc('site').call('revoke', { name: 'north' });
  await eventually(async () => (await inputs()).sites.length === 0, 'the deletion');
});

test('the centre sums the inputs of sites, and refuses malformed ones', async (t) => {
  const centre = await startCentre(t);
  const grain = { grain: 'os', values: 2, pillars: 3, isShared: true };
  const reports = [
    { shared: 3, own: 0, grains: [grain] },
    { shared: 4, own: 1, grains: [{ ...grain, values: 5, pillars: 4, isShared: false }] },
  ];
  for (const [index, report] of reports.entries()) {
    const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, `site-${index}`));
    t.true(await link.isWelcome());
    const malformed = { ...report, grains: [{ ...grain, pillars: -1 }] };
    const entries = [entryOf(1, 'inputs', report), entryOf(2, 'inputs', malformed)];
    t.like(await link.ask('log.turn', {}), { kind: 'reply' });
    const reply = await link.ask('log.fact', batchOf(entries));
    t.like(reply, { value: { sequence: 2, refused: [{ sequence: 2 }] } });
  }
  const all = await centre.rpc('site').call<InputsOfSites>('inputs', {});
  t.like(all, { shared: 7, own: 1 });
  t.deepEqual(all.grains, [{ grain: 'os', values: 5, pillars: 7, isShared: false }]);
});

test('the numbers of one site cannot make the sums of all sites infinite', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const huge = Number.MAX_VALUE;
  const grains = Array.from({ length: 3 }, () => {
    return { grain: 'os', values: huge, pillars: huge, isShared: true };
  });
  await link.ask('log.turn', {});
  await link.ask('log.fact', batchOf([entryOf(1, 'inputs', { shared: huge, own: huge, grains })]));
  const all = await centre.rpc('site').call<InputsOfSites>('inputs', {});
  t.true(
    [all.shared, all.own, ...all.grains.map(({ pillars }) => pillars)].every(Number.isSafeInteger),
  );
});
