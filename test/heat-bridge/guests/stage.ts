/**
 * Starts a bridge behind its HTTP API, with enrolled machines that request values with their
 * tokens.
 */

import net from 'node:net';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '#acl';
import { type Bridge, createBridge } from '#guests';
import { createSaltApi } from '#salt-api';
import { type ApiAnswer, type ApiRequest, json, send } from '../../helpers/salt-api.ts';
import {
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import { fingerOf } from '../enroll/stage.ts';

const certificate = fileURLToPath(
  new URL('../../../test/fixtures/tls/master.pem', import.meta.url),
);

/** Enrolled machine. */
export interface GuestMachine {
  readonly id: string;
  readonly token: string;
  readonly number: string;
  get(key: string, query?: string): Promise<ApiAnswer>;
  put(key: string, value: string): Promise<ApiAnswer>;
}

export interface GuestStage extends VectorMaster {
  readonly bridge: Bridge;
  readonly port: number;
  call(request: ApiRequest): Promise<ApiAnswer>;
  /** Enrols a machine by a claim. */
  guest(
    id: string,
    more?: { readonly project?: string; readonly instance?: string },
  ): Promise<GuestMachine>;
}

/** Rule that permits every minion to use the data space. */
export const everyGuest: PolicyRule = allow('guests', {
  subject: { minion: '*' },
  action: 'runner',
  resource: { fun: 'saltbridge_*' },
});

export interface GuestStageOptions extends VectorMasterOptions {
  /** Rules of the policy. Default: {@link everyGuest}. */
  readonly rules?: readonly PolicyRule[];
  /** Section `bridge: guests:` of the configuration. */
  readonly guests?: object;
  readonly more?: object;
}

export async function startGuests(
  t: ExecutionContext,
  { rules = [everyGuest], guests = {}, more, ...options }: GuestStageOptions = {},
): Promise<GuestStage> {
  const bridge = createBridge();
  const enroll = { masters: ['127.0.0.1'], url: 'https://127.0.0.1', certificate };
  const running = await startVectorMaster(t, {
    startAt: Date.now(),
    keys: [],
    ...options,
    config: {
      ...options.config,
      acl: { rules },
      bridge: { enroll, guests, ...more },
    },
    extensions: [bridge],
  });
  const api = await createSaltApi(running.master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const call = (request: ApiRequest): Promise<ApiAnswer> => send(port, request);
  const path = (key: string): string => `/bridge/v1/guest/data?key=${encodeURIComponent(key)}`;
  return {
    ...running,
    bridge,
    port,
    call,
    guest: async (id, { project = 'p1', instance } = {}) => {
      const { ticket, enrolment } = await bridge.enroll.create({
        id,
        project,
        ...(instance === undefined ? {} : { instance }),
      });
      const claim = { ticket, id, fingerprint: fingerOf('minion'), ...(instance && { instance }) };
      const claimed = await call({
        method: 'POST',
        path: '/bridge/v1/enroll/claim',
        headers: json(),
        body: claim,
      });
      const token = tokenIn(claimed);
      const headers = { 'x-auth-token': token };
      return {
        id,
        token,
        number: enrolment.number,
        get: (key, query = '') => call({ path: `${path(key)}${query}`, headers }),
        put: (key, value) =>
          call({
            method: 'PUT',
            path: path(key),
            headers: { ...headers, 'content-type': 'text/plain' },
            body: value,
          }),
      };
    },
  };
}

/** Serves the same bridge by a second HTTP API over HTTPS. */
export async function listenWithTls(
  t: ExecutionContext,
  { bridge, master }: GuestStage,
  tls: { readonly certificate: string; readonly key: string },
): Promise<{ readonly port: number }> {
  const api = await createSaltApi(master, { host: '127.0.0.1', tls, plugins: [bridge.http] });
  t.teardown(() => api.close());
  return api.listen();
}

function tokenIn({ json: answer }: ApiAnswer): string {
  const hasToken = typeof answer === 'object' && answer !== null && 'token' in answer;
  if (hasToken) return String(answer.token);
  throw new TypeError('no token in the answer to a claim');
}

/** Returns the code of an error response. */
export function codeOf({ json: answer }: ApiAnswer): string | undefined {
  return /"code":"(\w+)"/.exec(JSON.stringify(answer))?.[1];
}

/** Sends bytes to a Unix socket. Returns the bytes that are received until it is closed. */
export function sendToSocket(socket: string, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const connection = net.connect(socket, () => connection.write(bytes));
    connection.on('data', (chunk) => {
      text += chunk;
    });
    connection.once('error', reject);
    connection.once('close', () => resolve(text));
  });
}
