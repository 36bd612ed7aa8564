/** Streams of methods over `/rpc` that count towards the limit of event streams. */

import test from 'ava';
import { coreMethods } from '#master';
import { namedMethods } from '#master/rpc/methods.ts';
import { openEvents } from '../helpers/event-reader.ts';
import { json, password } from '../helpers/salt-api.ts';
import { startBridgeApi } from './api-stage.ts';

test('each stream over /rpc is counted, except streams of jobs, which have their own limit', async (t) => {
  const { ask, login, port, bridge, master } = await startBridgeApi(t, { options: { streams: 1 } });
  const headers = json(await login('admin'));
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const { token } = await master.logins.login(credentials);
  await openEvents(t, port, headers);
  const methods = [...coreMethods(), ...namedMethods(bridge.http.methods())];
  const streams = methods.filter(([, { isStream, access }]) => isStream && access !== 'host');
  const counted: string[] = [];
  const others: string[] = [];
  for (const [name] of streams) {
    const body = name === 'logins.follow' ? { token } : {};
    const { json: told } = await ask({ method: 'POST', path: `/rpc/${name}`, headers, body });
    const { code } = Object(Object(told).error);
    (code === 'ERR_HTTP_STREAMS' ? counted : others).push(name);
  }
  t.deepEqual(others.sort(), ['jobs.batch', 'jobs.follow', 'jobs.run']);
  for (const name of ['bridge.run', 'bridge.runPlan', 'bridge.followPlan', 'events.subscribe']) {
    t.true(counted.includes(name), name);
  }
});
