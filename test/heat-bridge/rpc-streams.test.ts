/** Streams of methods over `/rpc` that count towards the limit of event streams. */

import test from 'ava';
import type { FastifyRequest } from 'fastify';
import { createCallerResolver } from '#heat-bridge';
import { coreMethods, type HttpServerContext } from '#master';
import { namedMethods } from '#master/rpc/methods.ts';
import { streamOwnerOf } from '#salt-api/context.ts';
import { openEvents } from '../helpers/event-reader.ts';
import { policyOf } from '../helpers/policies.ts';
import { json, password } from '../helpers/salt-api.ts';
import { startBridgeApi } from './api-stage.ts';

test('a user has one share of streams at the bridge and at other addresses of the API', async (t) => {
  const subject = { kind: 'user', name: 'alice', groups: [], eauth: 'pam' } as const;
  const host = {
    holdToken: async () => ({
      ...{ subject, policy: policyOf([]), ended: new AbortController().signal },
      stop: () => {},
    }),
  };
  // Only these members are used.
  const doors = { tokenOf: () => 'token' } as unknown as HttpServerContext;
  const known = createCallerResolver(doors, host);
  const { owner } = await known({ headers: {}, ip: '192.0.2.1' } as FastifyRequest);
  t.is(owner, streamOwnerOf({ name: 'alice', eauth: 'pam', token: 'token' }).user);
});

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
