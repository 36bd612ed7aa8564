/**
 * A server that replaces Keystone, heat-api, heat-api-cfn, Zaqar and Swift on one port. Its
 * responses were recorded from real services.
 */
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { ExecutionContext } from 'ava';
import type { CollectConfig } from '#guests';
import { type Recorded, type Recorder, recorderFor } from '../signals/recorder.ts';

interface RecordedAnswer {
  readonly status: number;
  readonly body: string;
}

/** An input in a recorded entry. */
interface EntryInput {
  readonly name: string;
  readonly type?: string;
  readonly value: unknown;
}

/** An entry in the list of a server's deployments, as Heat writes it. */
export interface Entry {
  readonly id: string;
  readonly group: string;
  readonly config: unknown;
  readonly inputs: readonly EntryInput[];
  readonly [key: string]: unknown;
}

interface Recordings {
  readonly 'heat-login': RecordedAnswer;
  readonly 'zaqar-login': RecordedAnswer;
  readonly 'heat-metadata': RecordedAnswer;
  readonly 'cfn-metadata': RecordedAnswer;
  readonly 'cfn-request': string;
  readonly 'zaqar-messages': RecordedAnswer;
  readonly 'tempurl-metadata': RecordedAnswer;
  readonly 'owner-resources': RecordedAnswer;
  readonly collect: Readonly<Record<string, CollectConfig>>;
}

const file = new URL('../../../test/fixtures/heat/deployments.json', import.meta.url);
export const recordings: Recordings = JSON.parse(readFileSync(file, 'utf8'));

export type CollectKind = 'cfn' | 'heat' | 'message' | 'url';

export interface StandInHeat {
  readonly origin: string;
  readonly requests: readonly Recorded[];
  /** Results that were received, with the path to which each was sent. */
  readonly results: { readonly path: string; readonly values: Readonly<Record<string, unknown>> }[];
  /** Entries of servers that were not recorded, by id. Default: none. */
  readonly servers: Map<string, readonly Entry[]>;
  /** Further metadata in the responses of heat-api. */
  metadata: object;
  /** Status code with which results are answered. */
  status: number;
  /** Message with which results are rejected. */
  refusal: string;
  /** Returns the recorded `os-collect-config` of a server. */
  collect(kind: CollectKind): CollectConfig;
  /** Returns an entry that signals by HEAT_SIGNAL. */
  entry(id: string, more?: Partial<Entry>, inputs?: Readonly<Record<string, unknown>>): Entry;
}

const ports = /http:\/\/127\.0\.0\.1:152\d\d/g;

export async function startStandInHeat(
  t: Pick<ExecutionContext, 'teardown'>,
): Promise<StandInHeat> {
  const results: { path: string; values: Record<string, unknown> }[] = [];
  const servers = new Map<string, readonly Entry[]>();
  const local = (text: string): string => text.replace(ports, () => service.origin);
  const answer = (request: Recorded, response: ServerResponse): unknown => {
    const send = (status: number, body: string, headers: Record<string, string> = {}): unknown => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      return response.end(body);
    };
    const replay = (key: 'cfn-metadata' | 'tempurl-metadata'): unknown => {
      return send(recordings[key].status, local(recordings[key].body));
    };
    const { method, path, body } = request;
    const [, server] = /\/software_deployments\/metadata\/([^/?]+)$/.exec(path) ?? [];
    if (path.endsWith('/auth/tokens')) return logIn(body, send, local);
    if (server !== undefined) {
      return send(200, JSON.stringify({ metadata: servers.get(server) ?? [] }));
    }
    if (path.includes('/v2/queues/')) {
      if (method === 'DELETE') return send(204, '');
      if (method === 'POST') {
        const [message] = JSON.parse(body).messages;
        results.push({ path, values: message.body });
        return send(heat.status === 200 ? 201 : heat.status, '{}');
      }
      const isMetadata = path.includes('server_message');
      const { status, body: text } = recordings['zaqar-messages'];
      return send(isMetadata ? status : 204, isMetadata ? local(text) : '');
    }
    if (path.includes('Action=DescribeStackResource')) return replay('cfn-metadata');
    if (method === 'GET' && path.endsWith('/metadata')) {
      const { metadata } = JSON.parse(local(recordings['heat-metadata'].body));
      return send(200, JSON.stringify({ metadata: { ...metadata, ...heat.metadata } }));
    }
    if (method === 'GET' && path.includes('AUTH_')) return replay('tempurl-metadata');
    if (method === 'HEAD') return send(200, '', { etag: 'd41d8cd98f00b204e9800998ecf8427e' });
    if (method === 'POST' || method === 'PUT') {
      results.push({ path, values: JSON.parse(body) });
      return send(method === 'PUT' && heat.status === 200 ? 201 : heat.status, heat.refusal);
    }
    return send(404, '{}');
  };
  const service: Recorder = await recorderFor(t, answer);
  const template: Entry = JSON.parse(recordings['heat-metadata'].body).metadata.deployments[0];
  const heat: StandInHeat = {
    origin: service.origin,
    requests: service.requests,
    results,
    servers,
    metadata: {},
    status: 200,
    refusal: 'null',
    collect: (kind) => JSON.parse(local(JSON.stringify(recordings.collect[`occ_${kind}`]))),
    entry: (id, more = {}, inputs = {}) => ({
      ...JSON.parse(local(JSON.stringify(template))),
      id,
      ...more,
      inputs: [
        ...JSON.parse(local(JSON.stringify(template.inputs))).filter(
          ({ name }: EntryInput) => name.startsWith('deploy_') && !Object.hasOwn(inputs, name),
        ),
        ...Object.entries(inputs).map(([name, value]) => ({ name, value })),
      ],
    }),
  };
  return heat;
}

/** Logs in. The token contains the name of the user. */
function logIn(
  body: string,
  send: (status: number, body: string, headers: Record<string, string>) => unknown,
  local: (text: string) => string,
): void {
  const { identity } = JSON.parse(body).auth;
  const user = identity.password?.user.id ?? identity.application_credential.id;
  const key =
    user === recordings.collect.occ_message?.zaqar?.user_id ? 'zaqar-login' : 'heat-login';
  send(201, local(recordings[key].body), { 'x-subject-token': `token-of-${user}` });
}
