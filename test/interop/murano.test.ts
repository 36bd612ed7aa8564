/** Execution plans of Murano on real minions: a recorded one, and one whose script fails. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { allow } from '#acl';
import { resolveMasterConfig } from '#config';
import { createBridge } from '#guests';
import type { CommandDefinition } from '#heat-bridge';
import { createSilentLogger } from '#master';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';
import { type ApiAnswer, json, send } from '../helpers/salt-api.ts';
import { EventLog } from './event-log.ts';
import { Fleet } from './fleet.ts';
import { MasterHome } from './our-master.ts';
import { steps } from './programs.ts';

type Fields = Readonly<Record<string, unknown>>;

const fixture = new URL('../../test/fixtures/murano/execution-plans.json', import.meta.url);
const recorded: Readonly<Record<'result_ok' | 'result_script_failed' | 'v2_application', Fields>> =
  JSON.parse(readFileSync(fixture, 'utf8'));

const deploy: CommandDefinition = {
  name: 'demo.deploy',
  description: 'Says its port, unless it is 0.',
  function: 'cmd.run_all',
  unsafe: 'i-understand',
  parameters: {
    type: 'object',
    required: ['port'],
    properties: { port: { type: 'string', pattern: '^[0-9]+$' } },
  },
  arguments: {
    cmd: { value: 'test "$PORT" != 0 || { echo "no such port" >&2; exit 3; }; echo "port $PORT"' },
    env: { map: { PORT: { parameter: 'port' } } },
    python_shell: { value: true },
  },
};

steps('SALT_MINION')('an execution plan gives the envelope of Murano’s own agent', async (t) => {
  const place = await MasterHome.create();
  t.teardown(() => place.dispose());
  const catalog = path.join(place.directory, 'catalog.yaml');
  const entry =
    '{ description: x, type: Application, entry_point: deploy-web.sh, command: demo.deploy, argument: port }';
  writeFileSync(catalog, `murano:\n  demo.entry: ${entry}\n`);
  const rule = allow('murano', {
    subject: { user: 'murano' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'salt-*' },
  });
  const home = place.with({
    acl: { signals: [], rules: [rule] },
    eauth: { sharedsecret: 'secret' },
    externalAuth: { sharedsecret: { murano: ['test.ping'] } },
    bridge: { catalog: [catalog], murano: { unsigned: true } },
  });
  const bridge = createBridge({ commands: [deploy] });
  const fleet = await Fleet.create(home.ports);
  t.teardown(() => fleet.dispose());
  const master = createMaster({
    config: resolveMasterConfig(home.options),
    logger: createSilentLogger(),
    extensions: [bridge],
  });
  await master.start();
  t.teardown(() => master.close());
  await fleet.enrol(master, new EventLog(await master.events.subscribe()));
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const login = { username: 'murano', password: 'secret', eauth: 'sharedsecret' };
  const { headers } = await send(port, {
    method: 'POST',
    path: '/login',
    headers: json(),
    body: login,
  });
  const token = String(headers['x-auth-token']);
  const call = (guest: string, plan: Fields): Promise<ApiAnswer> =>
    send(port, {
      method: 'POST',
      path: `/bridge/v1/murano/${guest}`,
      headers: json(token),
      body: { execution_plan: JSON.stringify(plan) },
    });
  const plan = recorded.v2_application;
  for (const guest of fleet.ids) {
    const done = await call(guest, plan);
    const { ID: _id, Time: _time, ...expected } = recorded.result_ok;
    t.like(done.json, expected, `${guest}: ${done.text}`);
    const later = { ID: `plan-of-${guest}`, Stamp: Number(plan.Stamp) + 1 };
    const failed = await call(guest, { ...plan, ...later, Parameters: { port: '0' } });
    const { ErrorCode, Body } = recorded.result_script_failed;
    t.like(failed.json, { ErrorCode, Body, SourceID: later.ID }, `${guest}: ${failed.text}`);
    const code = await call(guest, { ...plan, ID: 'x', Stamp: later.Stamp + 1, Body: 'import os' });
    t.like(code.json, { ErrorCode: 2 }, code.text);
  }
});
