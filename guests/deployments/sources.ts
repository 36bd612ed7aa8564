/** Reads the metadata of a server from heat-api, heat-api-cfn, Zaqar or a TempURL. */

import { createHmac, hash } from 'node:crypto';
import {
  type Ask,
  encodePath,
  getRequest,
  isPlainMap,
  limitOf,
  messagesOf,
  textOfAnswer,
  zaqarClientId,
} from '#heat-bridge';
import { type HttpResult, type ReadingStep, readJsonInSteps } from '#runtime';
import { jsonNumber } from '#template/python/json.ts';
import type { Float } from '#template/python/values.ts';
import { answerOptions, type Reading } from './answer-readings.ts';
import type { StackLogins } from './logins.ts';
import { type ServerMetadata, serverMetadataInSteps } from './metadata.ts';
import { type WatchedValues, watchedValuesInSteps } from './metadata-hooks.ts';
import type { CollectConfig, OwnerLogin } from './stacks.ts';

/** Result of reading a server's metadata. */
export type ReadResult =
  | {
      readonly kind: 'metadata';
      readonly metadata: ServerMetadata;
      readonly watched: WatchedValues;
      /** SHA-256 of the response, in hex. Absent if the metadata is from a Zaqar queue. */
      readonly answer?: string;
    }
  /**
   * The metadata has not changed: the response has the digest `known`, or the Zaqar queue has no
   * messages.
   */
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Server of a registered stack, and the source of its metadata. */
export interface ServerSource {
  /** Id that the bridge gave the stack when it was registered. */
  readonly stack: string;
  /** Heat's id of the server. */
  readonly serverId: string;
  /** Path `<stack>/<id>/resources/<name>`, if the server was found among the stack's resources. */
  readonly resourcePath?: string;
  readonly collect: CollectConfig | undefined;
  readonly login: OwnerLogin | undefined;
}

export interface SourceDeps {
  readonly ask: Ask;
  readonly logins: StackLogins;
  /** Maximum size of a response, in bytes. Larger ones are rejected. */
  readonly maxBytes: number;
  /**
   * SHA-256 of an earlier response, in hex. If the response still has this digest, it is not
   * parsed, and the result is `unchanged`.
   */
  readonly known?: string | undefined;
  /** Runs a generator that parses a response. Other work can run between its steps. */
  readonly inSteps: <T>(work: Generator<ReadingStep, T, void>) => Promise<Reading<T>>;
  readonly now: () => number;
}

/** Reads the metadata of a server once, from the source that its registration describes. */
export async function readServer(source: ServerSource, deps: SourceDeps): Promise<ReadResult> {
  const { collect } = source;
  if (collect?.heat !== undefined) return readHeatResource(source.stack, collect.heat, deps);
  if (collect?.zaqar !== undefined) return readQueue(source.stack, collect.zaqar, deps);
  if (collect?.cfn !== undefined) return readCfn(collect.cfn, deps);
  if (collect?.request !== undefined) {
    const request = { method: 'GET', url: collect.request.metadata_url } as const;
    return metadataOf(await deps.ask({ ...request, ...limitOf(deps) }), deps, (body) => body);
  }
  return readAsOwner(source, deps);
}

async function readHeatResource(
  stack: string,
  login: NonNullable<CollectConfig['heat']>,
  deps: SourceDeps,
): Promise<ReadResult> {
  const path = [login.stack_id, 'resources', login.resource_name].join('/');
  const result = await deps.logins.ask(deps.ask, stack, login, ({ heat }) =>
    getRequest(heat && `${heat}/stacks/${encodePath(path)}/metadata`, deps),
  );
  return metadataOf(result, deps, (body) => (isPlainMap(body) ? body.metadata : undefined));
}

/**
 * Reads the metadata of a server from its resource in the stack. If the path of the resource is
 * unknown, reads the deployments of the server from the owner's project.
 */
async function readAsOwner(
  { stack, serverId, resourcePath, login }: ServerSource,
  deps: SourceDeps,
): Promise<ReadResult> {
  if (login === undefined)
    return {
      kind: 'failed',
      reason: 'the stack is registered without a login; register it again with one',
    };
  if (resourcePath !== undefined) {
    const read = await deps.logins.ask(deps.ask, stack, login, ({ heat }) =>
      getRequest(heat && `${heat}/stacks/${encodePath(resourcePath)}/metadata`, deps),
    );
    return metadataOf(read, deps, (body) => memberOf(body, 'metadata'));
  }
  const result = await deps.logins.ask(deps.ask, stack, login, ({ heat }) =>
    getRequest(
      heat && `${heat}/software_deployments/metadata/${encodeURIComponent(serverId)}`,
      deps,
    ),
  );
  return metadataOf(result, deps, (body) =>
    isPlainMap(body) ? { deployments: body.metadata } : undefined,
  );
}

/** Calls DescribeStackResource of heat-api-cfn with an EC2 signature, version 2. */
async function readCfn(
  cfn: NonNullable<CollectConfig['cfn']>,
  deps: SourceDeps,
): Promise<ReadResult> {
  const url = describeResourceUrl(cfn, deps.now());
  const result = await deps.ask({ method: 'GET', url, ...limitOf(deps) });
  return metadataOf(result, deps, (body) => {
    const detail = ['DescribeStackResourceResponse', 'DescribeStackResourceResult'].reduce(
      memberOf,
      body,
    );
    return memberOf(memberOf(detail, 'StackResourceDetail'), 'Metadata');
  });
}

function memberOf(value: unknown, key: string): unknown {
  return isPlainMap(value) ? value[key] : undefined;
}

/** Returns a signed URL for one request. The signature is valid for a few minutes. */
export function describeResourceUrl(cfn: NonNullable<CollectConfig['cfn']>, now: number): string {
  const { protocol, host, pathname } = new URL(cfn.metadata_url);
  const [resource = ''] = cfn.path.split('.Metadata');
  const query = Object.entries({
    AWSAccessKeyId: cfn.access_key_id,
    Action: 'DescribeStackResource',
    ContentType: 'JSON',
    LogicalResourceId: resource,
    SignatureMethod: 'HmacSHA256',
    SignatureVersion: '2',
    StackName: cfn.stack_name,
    Timestamp: new Date(now).toISOString().replace(/\.\d+/, ''),
  })
    .map(([key, value]) => `${key}=${encodeRfc3986(value)}`)
    .join('&');
  const text = ['GET', host, pathname, query].join('\n');
  const signature = createHmac('sha256', cfn.secret_access_key).update(text).digest('base64');
  return `${protocol}//${host}${pathname}?${query}&Signature=${encodeRfc3986(signature)}`;
}

function encodeRfc3986(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (it) => `%${it.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

const messagesPerRequest = 20;

const maxQueueReads = 50;
const none = { ok: true, value: undefined } as const;

/**
 * Reads the newest message of a Zaqar queue. Heat posts the whole metadata to the queue after each
 * change. Older messages are deleted. The newest message stays in the queue, so that the next read
 * finds the metadata even after a crash.
 */
async function readQueue(
  stack: string,
  login: NonNullable<CollectConfig['zaqar']>,
  deps: SourceDeps,
): Promise<ReadResult> {
  const messages = `v2/queues/${encodeURIComponent(login.queue_id)}/messages`;
  const headers = { 'client-id': zaqarClientId };
  const old: string[] = [];
  for (let reads = 0; reads < maxQueueReads; reads += 1) {
    const result = await deps.logins.ask(deps.ask, stack, login, ({ zaqar }) => {
      const page = getRequest(
        zaqar && `${zaqar}/${messages}?echo=true&limit=${messagesPerRequest}`,
        deps,
      );
      return page && { ...page, headers };
    });
    const answer = textOfAnswer(result, deps);
    if (!answer.ok) return { kind: 'failed', reason: answer.reason };
    const { text } = answer;
    const read = text === undefined ? none : await deps.inSteps(exactValueInSteps(text, deps));
    if (!read.ok) return { kind: 'failed', reason: read.reason };
    const page = messagesOf(read.value);
    const newest = page.at(-1);
    if (newest === undefined) return { kind: 'unchanged' };
    old.push(...page.slice(0, -1).map(({ id }) => id));
    const isLast = page.length < messagesPerRequest;
    if (!isLast) old.push(newest.id);
    if (old.length > 0) {
      const ids = old.splice(0).map(encodeURIComponent).join(',');
      await deps.logins.ask(deps.ask, stack, login, ({ zaqar }) =>
        zaqar === undefined
          ? undefined
          : { method: 'DELETE', url: `${zaqar}/${messages}?ids=${ids}`, headers },
      );
    }
    if (!isLast) continue;
    const reading = await deps.inSteps(parsedInSteps(newest.body));
    return reading.ok ? reading.value : { kind: 'failed', reason: reading.reason };
  }
  return {
    kind: 'failed',
    reason: 'the Zaqar queue holds more messages than one read accepts; the next read continues',
  };
}

/**
 * Parses the metadata in a response.
 * @param pick - returns the metadata from the parsed body of the response
 */
async function metadataOf(
  result: HttpResult,
  deps: SourceDeps,
  pick: (body: unknown) => unknown,
): Promise<ReadResult> {
  const answer = textOfAnswer(result, deps);
  if (!answer.ok) return { kind: 'failed', reason: answer.reason };
  const { text } = answer;
  const digest = text === undefined ? undefined : hash('sha256', text);
  if (digest !== undefined && digest === deps.known) return { kind: 'unchanged' };
  const reading = await deps.inSteps(
    (function* () {
      const body = text === undefined ? undefined : yield* exactValueInSteps(text, deps);
      const picked = pick(body);
      // heat-api-cfn returns the metadata as JSON in a string.
      const isText = typeof picked === 'string';
      return yield* parsedInSteps(
        isText ? yield* readJsonInSteps(picked, answerOptions(deps.maxBytes)) : picked,
      );
    })(),
  );
  if (!reading.ok) return { kind: 'failed', reason: reading.reason };
  const { value } = reading;
  return value.kind === 'metadata' && digest !== undefined ? { ...value, answer: digest } : value;
}

/** Reads JSON like `parseExactJson`, within limits. */
function exactValueInSteps(
  text: string,
  { maxBytes }: Pick<SourceDeps, 'maxBytes'>,
): Generator<ReadingStep, unknown, void> {
  return readJsonInSteps<Float>(text, {
    ...answerOptions<Float>(maxBytes),
    readNumber: jsonNumber,
  });
}

function* parsedInSteps(value: unknown): Generator<ReadingStep, ReadResult, void> {
  const result = yield* serverMetadataInSteps(value);
  if (!result.ok) return { kind: 'failed', reason: result.problem };
  const { metadata } = result;
  const watched = yield* watchedValuesInSteps(metadata.values);
  return { kind: 'metadata', metadata, watched };
}
