/**
 * The PROXY protocol, version 2, as far as relays of Salt's ports use it: a header before the bytes
 * of a connection, which says where it comes from [haproxy doc/proxy-protocol.txt 2.2].
 */

import { Buffer } from 'node:buffer';
import ipaddr from 'ipaddr.js';

/** Whom a relay passes on. */
export interface RelayedPeer {
  /** Id of the network that it is in. */
  readonly network: string;
  /** In that network. */
  readonly address: string;
  /** If the relay knows it, with `project`. */
  readonly instance?: string;
  readonly project?: string;
}

/** What a chunk gave: not all of the header yet, no header that we take, or all of it. */
export type ProxyHeaderResult =
  | 'incomplete'
  | 'wrong'
  | {
      readonly peer: RelayedPeer;
      /** What comes behind the header. */
      readonly rest: Uint8Array;
    };

const signature = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
const prefixBytes = 16;
/** The longest that the protocol asks receivers to take. */
const maxHeaderBytes = 536;
/** Version 2, with an address: LOCAL (20) is a proxy's own check of its health. */
const proxyCommand = 0x21;
const tcpOverIpv4 = 0x11;
const tcpOverIpv6 = 0x21;

/** PP2_TYPE_UNIQUE_ID: the network's id, which haproxy sends as `unique-id-format`. */
const networkType = 0x05;
/** Of those that the protocol leaves to applications. */
const instanceType = 0xe0;
const projectType = 0xe1;
const ownTypes: ReadonlySet<number> = new Set([networkType, instanceType, projectType]);

const idForm = /^[A-Za-z0-9-]{1,64}$/;

/** Reads the header of one connection. After anything but `incomplete` it is of no more use. */
export class ProxyHeaderReader {
  #bytes: Buffer = Buffer.alloc(0);

  push(chunk: Uint8Array): ProxyHeaderResult {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const bytes = this.#bytes;
    const compared = Math.min(bytes.length, signature.length);
    if (bytes.compare(signature, 0, compared, 0, compared) !== 0) return 'wrong';
    if (bytes.length < prefixBytes) return 'incomplete';
    const end = prefixBytes + bytes.readUInt16BE(14);
    if (end > maxHeaderBytes) return 'wrong';
    if (bytes.length < end) return 'incomplete';
    const peer = readPeer(bytes.subarray(0, end));
    return peer === undefined ? 'wrong' : { peer, rest: bytes.subarray(end) };
  }
}

function readPeer(header: Buffer): RelayedPeer | undefined {
  if (header[12] !== proxyCommand) return undefined;
  const family = header[13];
  if (family !== tcpOverIpv4 && family !== tcpOverIpv6) return undefined;
  const width = family === tcpOverIpv4 ? 4 : 16;
  const valuesAt = prefixBytes + 2 * width + 4;
  if (header.length < valuesAt) return undefined;
  const address = readAddress(header.subarray(prefixBytes, prefixBytes + width));
  const values = readValues(header.subarray(valuesAt));
  const network = values?.get(networkType);
  if (values === undefined || network === undefined) return undefined;
  const [instance, project] = [values.get(instanceType), values.get(projectType)];
  if (instance === undefined && project === undefined) return { network, address };
  if (instance === undefined || project === undefined) return undefined;
  return { network, address, instance, project };
}

/** The values of ours, by their types; others are left out. `undefined` for what is wrong. */
function readValues(bytes: Buffer): ReadonlyMap<number, string> | undefined {
  const values = new Map<number, string>();
  for (let at = 0; at < bytes.length; ) {
    if (at + 3 > bytes.length) return undefined;
    const type = bytes.readUInt8(at);
    const end = at + 3 + bytes.readUInt16BE(at + 1);
    if (end > bytes.length) return undefined;
    if (ownTypes.has(type)) {
      const text = bytes.toString('latin1', at + 3, end);
      if (values.has(type) || !idForm.test(text)) return undefined;
      values.set(type, text);
    }
    at = end;
  }
  return values;
}

/** IPv4 within IPv6 is read as what it is. */
function readAddress(bytes: Buffer): string {
  return ipaddr.process(ipaddr.fromByteArray([...bytes]).toString()).toString();
}

/** One end of a connection. */
export interface ProxyEndpoint {
  readonly address: string;
  readonly port: number;
}

/**
 * The header of a connection.
 * @param peer its `address` is that of `source`
 * @throws TypeError for an id that has another form than that of networks, instances, projects
 */
export function encodeProxyHeader(
  { network, instance, project }: Omit<RelayedPeer, 'address'>,
  source: ProxyEndpoint,
  destination: ProxyEndpoint,
): Buffer {
  const isShort = [source, destination].every(({ address }) => isIpv4(address));
  const values = [encodeValue(networkType, network)];
  if (instance !== undefined && project !== undefined) {
    values.push(encodeValue(instanceType, instance), encodeValue(projectType, project));
  }
  const ports = Buffer.alloc(4);
  ports.writeUInt16BE(source.port, 0);
  ports.writeUInt16BE(destination.port, 2);
  const rest = Buffer.concat([
    encodeAddress(source.address, isShort),
    encodeAddress(destination.address, isShort),
    ports,
    ...values,
  ]);
  const prefix = Buffer.alloc(prefixBytes);
  signature.copy(prefix);
  prefix[12] = proxyCommand;
  prefix[13] = isShort ? tcpOverIpv4 : tcpOverIpv6;
  prefix.writeUInt16BE(rest.length, 14);
  return Buffer.concat([prefix, rest]);
}

function encodeValue(type: number, text: string): Buffer {
  if (!idForm.test(text)) throw new TypeError(`${text}: expected 1 to 64 letters, digits and "-"`);
  const head = Buffer.alloc(3);
  head[0] = type;
  head.writeUInt16BE(text.length, 1);
  return Buffer.concat([head, Buffer.from(text, 'latin1')]);
}

function encodeAddress(text: string, isShort: boolean): Buffer {
  const [plain = ''] = text.split('%');
  const address = ipaddr.parse(plain);
  const isMapped = !isShort && address instanceof ipaddr.IPv4;
  return Buffer.from((isMapped ? address.toIPv4MappedAddress() : address).toByteArray());
}

/**
 * The address of record of whoever comes through a relay: `instance:PROJECT/INSTANCE` where the
 * relay knows it, else `NETWORK/ADDRESS`, since two networks may have the same addresses.
 */
export function relayedAddress({ network, address, instance, project }: RelayedPeer): string {
  if (instance === undefined) return `${network}/${address}`;
  return `instance:${project}/${instance}`;
}

/** Whether a text is one that {@link relayedAddress} makes. */
export function isRelayedAddress(text: string): boolean {
  return /^(?:[A-Za-z0-9-]{1,64}\/[\da-f.:]{2,39}|instance:[A-Za-z0-9-]{1,64}\/[A-Za-z0-9-]{1,64})$/.test(
    text,
  );
}

/** Of addresses, those with dots. */
function isIpv4(address: string): boolean {
  return !address.includes(':');
}
