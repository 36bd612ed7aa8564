/**
 * Master of a site with one minion, which publishes jobs or prints what it has stored.
 * Arguments: directory of the site, and a mode. `kill`: ends itself with SIGKILL between storing the
 * first return and publishing its event. `run`: publishes jobs until it is killed, and prints a line
 * for each stored return. `report`: prints the stored returns and the returns in the log of the site,
 * as JSON.
 */

import Type from 'typebox';
import { decodeValue } from '#edge/log/log-codec.ts';
import { type ExtensionHost, type MasterExtension, masterServices } from '#master';
import type { WireMap } from '#minion-protocol';
import { createMasterServer } from '#server';
import { Bytes, defineRow } from '#store';
import { EmbeddedMinions } from '../../examples/embedded-minions.ts';
import { siteSection } from './sections.ts';

const [directory = '', mode = 'report'] = process.argv.slice(2);

const entryRow = defineRow({
  name: 'entry of the log of a site',
  schema: Type.Object({
    ms: Type.Number(),
    count: Type.Number(),
    kind: Type.String(),
    value: Bytes,
    from: Type.Optional(Type.Number()),
  }),
});

let host: ExtensionHost | undefined;
const probe: MasterExtension = {
  name: 'log-probe',
  namespace: 'edge',
  open: async (opened) => {
    host = opened;
    if (mode === 'report') return {};
    const { bus } = opened.use(masterServices.events);
    const fire = bus.fire.bind(bus);
    bus.fire = (tag, data, origin) => {
      const isReturn = /^salt\/job\/\d+\/ret\//.test(tag);
      if (isReturn && mode === 'kill') process.kill(process.pid, 'SIGKILL');
      fire(tag, data, origin);
      if (isReturn) process.stdout.write('return\n');
    };
    return {};
  },
};

const server = await createMasterServer({
  extensions: [probe],
  rootDir: directory,
  stateDir: `${directory}/state`,
  interface: '127.0.0.1',
  publishPort: 0,
  requestPort: 0,
  autoAccept: true,
  logLevel: 'error',
  site: siteSection({ name: 'north', centre: 'http://127.0.0.1:1', events: ['probe/*'] }),
});
await server.start();

interface Logged {
  readonly kind: string;
  readonly value: WireMap;
}

async function logOf({ state }: ExtensionHost): Promise<readonly Logged[]> {
  const entries: Logged[] = [];
  for await (const row of state.list(['log', 'entry', 'return'])) {
    const { kind, value } = entryRow.decode(row);
    entries.push({ kind, value: decodeValue(value) });
  }
  return entries;
}

async function report(of: ExtensionHost): Promise<object> {
  // The site appends events after it has appended the returns that its log lacks.
  const tag = `probe/${process.pid}`;
  of.use(masterServices.events).bus.fire(tag, {});
  while (!(await logOf(of)).some(({ value }) => value.tag === tag)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { cache } = of.use(masterServices.jobs);
  const stored: string[] = [];
  for await (const { jid } of cache.records(100_000)) {
    for await (const { minion } of cache.returns(jid)) stored.push(`${jid} ${minion}`);
  }
  const returns = (await logOf(of)).filter(({ kind }) => kind === 'return');
  return { stored, logged: returns.map(({ value }) => `${value.jid} ${value.minion}`) };
}

if (host === undefined) throw new Error('the master is not open');
if (mode === 'report') {
  process.stdout.write(JSON.stringify(await report(host)));
  await server.close();
} else {
  const minions = new EmbeddedMinions();
  const { requestPort } = await server.master.status();
  const { connected } = await minions.start({ directory, requestPort }, 'web1');
  await connected;
  for (;;) {
    await server.master.jobs.publish({ tgt: 'web1', fun: 'test.ping' });
    await new Promise(setImmediate);
  }
}
