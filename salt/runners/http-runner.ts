/**
 * The `http` runner. It may connect only to the hosts that the configuration lists
 * [salt/runners/http.py, salt/utils/http.py].
 */

import { ConfigError, type LiveConfig } from '#config';
import { MasterError } from '#master';
import { isWireMap, plainNumber, pythonStr, type WireMap, type WireValue } from '#minion-protocol';
import {
  createDnsResolver,
  createHttpClient,
  describeSystemError,
  FairSlots,
  type HttpClient,
  type HttpResult,
  type OutgoingRequest,
  parseAllowedEndpoints,
  readEndpoint,
} from '#runtime';
import { TemplateError } from '#template';
import { type FunctionTable, masterFunction, refused } from '../functions/define-function.ts';
import { anything, flag, ignored, map, optional, required, text } from '../functions/parameters.ts';
import { saltLimits } from '../limits.ts';
import { toWire } from '../render/pillar-wire.ts';
import type { Renderer } from '../render/renderer.ts';
import { ownerOfValues } from './stored-amounts.ts';

export interface HttpRunnerDeps {
  readonly config: LiveConfig;
  readonly reader: Pick<Renderer, 'read'>;
}

const hostsOption = 'saltbridge: http_query: hosts';

/** Parts of the response that the caller wants. */
interface Wanted {
  readonly status: boolean;
  readonly headers: boolean;
  readonly text: boolean;
  readonly decode: boolean;
  readonly decode_type: string;
  readonly raise_error: boolean;
}

/**
 * Creates the runner.
 * @throws ConfigError ERR_CONFIG_READ if a CA file cannot be read
 */
export function httpRunner({ config: { fixed }, reader }: HttpRunnerDeps): FunctionTable {
  const { hosts, timeout, maxBytes } = fixed.httpQuery;
  const ask = openClient(fixed);
  const limit = new FairSlots(saltLimits.httpQueries);
  return {
    'http.query': masterFunction({
      summary: `Sends a request to a host listed in ${hostsOption}.`,
      parameters: {
        url: required(text),
        output: ignored,
        method: optional(text, 'GET'),
        params: optional(map, {}),
        data: optional(anything),
        header_dict: optional(map, {}),
        header_list: optional(anything, []),
        username: optional(text),
        password: optional(text),
        agent: optional(text),
        decode: optional(flag, false),
        decode_type: optional(text, 'auto'),
        status: optional(flag, false),
        headers: optional(flag, false),
        text: optional(flag, false),
        raise_error: optional(flag, true),
        node: ignored,
        backend: ignored,
        hide_fields: ignored,
      },
      // The call is confidential, because addresses, headers and responses may contain tokens.
      isConfidential: true,
      call: async ({ url, ...given }, { by, closing }) => {
        if (hosts.length === 0) {
          throw new MasterError(
            'ERR_NOT_SERVED',
            `http.query cannot send requests, because no host is permitted; list the permitted hosts in ${hostsOption}`,
          );
        }
        const request: OutgoingRequest = {
          ...methodAndBody(given.method, given.data, maxBytes),
          url: addressOf(url, given.params),
          headers: headersOf(given, given.data !== undefined),
          // Read one byte more than the limit, to detect a response that is too large.
          maxAnswerBytes: maxBytes + 1,
        };
        const owner = ownerOfValues({ by });
        const result = await limit.run(owner, () => ask(request, closing));
        if (result.kind === 'forbidden') throw refused(result.reason);
        if (result.kind === 'answer') return answerOf(result, given, { reader, owner, maxBytes });
        return { ...(given.status ? { status: 0 } : {}), error: result.reason };
      },
    }),
  };

  /** Opens a client with the certificate authorities of each host. */
  function openClient({ confFile }: { readonly confFile: string }): HttpClient {
    const listed = hosts.map(({ caFile, ...host }) => {
      try {
        return readEndpoint({ ...host, ...(caFile === undefined ? {} : { ca_file: caFile }) });
      } catch (cause) {
        const origin = { file: confFile, line: 0, key: 'saltbridge:http_query:hosts' };
        const problem = `ca_file of ${host.url}: ${describeSystemError(cause) ?? 'the file cannot be read'}`;
        throw new ConfigError('ERR_CONFIG_READ', origin, problem, { cause });
      }
    });
    return createHttpClient({
      endpoints: parseAllowedEndpoints(listed),
      listedBy: hostsOption,
      timeoutMs: timeout * 1000,
      resolve: createDnsResolver(),
    });
  }
}

/**
 * Normalises an address, so that the check and the request interpret it in the same way.
 * @throws MasterError ERR_ARGS
 */
function addressOf(url: string, params: WireMap): string {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw refused('`url` must be an http:// or https:// address');
  }
  const address = new URL(url);
  if (address.username !== '' || address.password !== '') {
    throw refused(
      '`url` must not contain a user name; use the arguments `username` and `password`',
    );
  }
  for (const [name, value] of pairsOf(params)) address.searchParams.append(name, value);
  address.hash = '';
  return address.href;
}

const methods: readonly OutgoingRequest['method'][] = [
  'DELETE',
  'GET',
  'HEAD',
  'PATCH',
  'POST',
  'PUT',
];

/**
 * Returns the method and body of a request.
 * @throws MasterError ERR_ARGS
 */
function methodAndBody(
  given: string,
  data: WireValue | undefined,
  maxBytes: number,
): Pick<OutgoingRequest, 'body' | 'method'> {
  const method = methods.find((known) => known === given.toUpperCase());
  if (method === undefined) throw refused(`\`method\` must be one of ${methods.join(', ')}`);
  if (data === undefined) return { method };
  if (!method.startsWith('P'))
    throw refused(`\`data\` is not allowed with the method ${method}; use PATCH, POST or PUT`);
  const body = isWireMap(data) ? new URLSearchParams(pairsOf(data)).toString() : textOf(data);
  if (body === undefined) throw refused('`data` must be text or a map');
  if (Buffer.byteLength(body) > maxBytes) throw refused(`\`data\` exceeds ${maxBytes} bytes`);
  return { method, body };
}

function textOf(value: WireValue): string | undefined {
  const isText = typeof value === 'string' || typeof plainNumber(value) === 'number';
  return isText ? String(value) : undefined;
}

function pairsOf(map: WireMap): [string, string][] {
  return Object.entries(map).map(([name, value]) => [name, pythonStr(value)]);
}

/** Headers that control message framing and routing. Callers must not set them. */
const ownHeaders =
  /^(?:connection|content-length|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/;

interface GivenHeaders {
  readonly header_dict: WireMap;
  readonly header_list: WireValue;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly agent: string | undefined;
}

/**
 * Returns the headers of a request.
 * @throws MasterError ERR_ARGS
 */
function headersOf(
  { username, password, agent, ...given }: GivenHeaders,
  hasBody: boolean,
): Record<string, string> {
  const headers: Record<string, string> = {
    accept: '*/*',
    'user-agent': 'saltbridge http.query()',
    ...(hasBody ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
  };
  const lines = Array.isArray(given.header_list) ? given.header_list : [given.header_list];
  // Maps from the wire cannot be converted to text.
  if (lines.some((line) => typeof plainNumber(line) === 'object')) {
    throw refused('`header_list` must be a text or a list of texts');
  }
  const fromLines = lines.map(String).flatMap((line): [string, string][] => {
    const at = line.indexOf(':');
    return at < 0 ? [] : [[line.slice(0, at).trim(), line.slice(at + 1).trim()]];
  });
  const own: [string, string][] = agent === undefined ? [] : [['user-agent', agent]];
  for (const [name, value] of [...pairsOf(given.header_dict), ...fromLines, ...own]) {
    const isPlain = /^[\w-]{1,256}$/.test(name) && /^[\t\x20-\x7e]{0,8192}$/.test(value);
    if (!isPlain || ownHeaders.test(name.toLowerCase())) {
      throw refused(`the header ${name.slice(0, 100)} is not allowed`);
    }
    headers[name.toLowerCase()] = value;
  }
  if (username !== undefined && password !== undefined) {
    const login = Buffer.from(`${username}:${password}`).toString('base64');
    headers.authorization = `Basic ${login}`;
  }
  return headers;
}

type Answer = Extract<HttpResult, { readonly kind: 'answer' }>;

interface Reading {
  readonly reader: Pick<Renderer, 'read'>;
  /** User who called the runner. */
  readonly owner: string;
  readonly maxBytes: number;
}

/** Returns the response in the format of Salt's runner. */
async function answerOf(
  { status, headers, body }: Answer,
  wanted: Wanted,
  reading: Reading,
): Promise<WireMap> {
  if (Buffer.byteLength(body) > reading.maxBytes) {
    return { status, error: `the response exceeds ${reading.maxBytes} bytes` };
  }
  const isFine = status >= 200 && status < 300;
  if (!isFine && wanted.raise_error) return { status, error: `HTTP ${status}`, body };
  const result: WireMap = { body };
  if (wanted.status) result.status = status;
  if (wanted.headers) {
    const texts = Object.entries(headers).map(([name, value]) => [name, String(value)]);
    result.headers = Object.fromEntries(texts);
  }
  const form = wanted.decode ? formOf(wanted.decode_type, headers['content-type']) : 'none';
  if (form === 'json' || form === 'yaml') {
    const decoded = await decode(body, form, reading);
    if (decoded === undefined) result.error = `the response is not valid ${form}`;
    else result.dict = decoded;
  } else if (form !== 'plain' && form !== 'none') {
    result.error = `cannot decode ${form}; supported types: json, yaml, plain`;
  }
  if (wanted.text || form === 'plain') result.text = body;
  return result;
}

/**
 * Determines the format of a response from its content type if the caller chose `auto`. Types other
 * than JSON, YAML and XML are text.
 */
function formOf(type: string, contentType = 'application/json'): string {
  if (type !== 'auto') return type;
  return ['xml', 'json', 'yaml'].find((form) => contentType.includes(form)) ?? 'plain';
}

async function decode(
  body: string,
  format: 'json' | 'yaml',
  { reader, owner }: Reading,
): Promise<WireValue | undefined> {
  try {
    return toWire(
      await reader.read({ kind: 'read', format, text: body, name: 'the response' }, owner),
    );
  } catch (error) {
    if (error instanceof TemplateError) return undefined;
    throw error;
  }
}
