/**
 * Options in the section `saltbridge: bridge: guests: peers:`, which describes the cloud from which
 * instances are read.
 */

import Type from 'typebox';
import { BridgeOptionsError, parseKeystoneOptions, parseSection } from '#heat-bridge';
import {
  createDnsResolver,
  createHttpClient,
  parseAllowedEndpoints,
  readEndpoint,
  trimEnd,
} from '#runtime';
import { CloudReader } from './cloud-reader.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Endpoint = Type.Object(
  { url: Text, addresses: Type.Optional(Type.Array(Text)), ca_file: Type.Optional(Text) },
  strict,
);
const Section = Type.Object(
  {
    /**
     * Keystone options of the service account, in the form of `bridge: keystone:`. Default: the
     * values of that section.
     */
    keystone: Type.Optional(Type.Unknown()),
    compute: Endpoint,
    network: Endpoint,
    poll_interval: Type.Optional(Type.Number({ minimum: 1, maximum: 86_400 })),
    full_interval: Type.Optional(Type.Number({ minimum: 1, maximum: 604_800 })),
    page_size: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
    timeout: Type.Optional(Type.Number({ minimum: 0.1, maximum: 300 })),
    /**
     * Options for notifications of Nova and Neutron about changed instances, which another program
     * posts to the bridge over HTTP. Default: the bridge rejects notifications.
     */
    notifications: Type.Optional(Type.Object({ secret_file: Text }, strict)),
  },
  strict,
);

/** Options of the cloud from which peers are read. */
export type CloudOptions = Readonly<ReturnType<typeof parseCloudOptions>>;

/**
 * Parses the section into options.
 * @param common - the section `bridge: keystone:`
 * @throws BridgeError ERR_BRIDGE_OPTIONS
 */
export function parseCloudOptions(given: unknown, common: unknown) {
  const peers = parseSection('bridge:guests:peers', Section, given);
  const { keystone: own, compute, network, notifications, ...pace } = peers;
  const keystone = own ?? common;
  if (keystone === undefined) {
    const key = 'saltbridge:bridge:guests:peers';
    throw new BridgeOptionsError([
      { key, problem: 'set keystone here, or under saltbridge: bridge:' },
    ]);
  }
  const section = own === undefined ? undefined : 'bridge:guests:peers:keystone';
  const account = parseKeystoneOptions(keystone, section);
  try {
    const services = parseAllowedEndpoints([compute, network].map(readEndpoint));
    return {
      keystone: account,
      compute: trimEnd(compute.url, '/'),
      network: trimEnd(network.url, '/'),
      pageSize: pace.page_size ?? 500,
      endpoints: new Map([...account.endpoints, ...services]),
      timeoutMs: (pace.timeout ?? 30) * 1000,
      intervalMs: (pace.poll_interval ?? 60) * 1000,
      fullIntervalMs: (pace.full_interval ?? 600) * 1000,
      /**
       * File with the secret that notifications must contain. Default: none, so that all
       * notifications are rejected.
       */
      notificationSecret: notifications?.secret_file,
    };
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : 'unreadable';
    throw new BridgeOptionsError([{ key: 'saltbridge:bridge:guests:peers', problem }], { cause });
  }
}

/**
 * Creates a reader of the cloud.
 *
 * @param closing - signal of the shutdown; when it is aborted, the reader's requests are aborted
 * too
 */
export function createCloudReader(
  { endpoints, timeoutMs, ...account }: CloudOptions,
  closing: AbortSignal,
): CloudReader {
  const ask = createHttpClient({ endpoints, timeoutMs, resolve: createDnsResolver() });
  return new CloudReader({ ...account, ask: (request) => ask(request, closing) });
}
