/**
 * Version 2 of the PROXY protocol, with the parts that relays of Salt's ports use [haproxy
 * doc/proxy-protocol.txt 2.2]. A relay sends a header with the origin of a connection before the
 * bytes of the connection.
 */

import { Buffer } from 'node:buffer';
import ipaddr from 'ipaddr.js';

/** Peer whose connection a relay forwards. */
export interface RelayedPeer {
  /** Id of the peer's network. */
  readonly network: string;
  /** Address of the peer in its network. */
  readonly address: string;
  /**
   * Id of the OpenStack instance that opened the connection. If the relay does not know it,
   * `instance` and `project` are absent.
   */
  readonly instance?: string;
  readonly project?: string;
}

/** Result of reading a chunk: the header is incomplete, invalid, or complete. */
export type ProxyHeaderResult =
  | 'incomplete'
  | 'wrong'
  | {
      readonly peer: RelayedPeer;
      /** Bytes of the connection that were received after the header. */
      readonly rest: Uint8Array;
    };

const signature = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
const prefixBytes = 16;
/** Maximum size of a header, in bytes. The protocol requires receivers to accept this size. */
const maxHeaderBytes = 536;
/**
 * Byte of the header for version 2 and the command PROXY. The command LOCAL (0x20), which health
 * checks of a proxy send, is not accepted.
 */
const proxyCommand = 0x21;
const tcpOverIpv4 = 0x11;
const tcpOverIpv6 = 0x21;

/** PP2_TYPE_UNIQUE_ID: the id of the network, which haproxy sends as `unique-id-format`. */
const networkType = 0x05;
/** Type number of the instance id, from the range that the protocol reserves for applications. */
const instanceType = 0xe0;
/** Type number of the project id, from the range that the protocol reserves for applications. */
const projectType = 0xe1;
const ownTypes: ReadonlySet<number> = new Set([networkType, instanceType, projectType]);

const idForm = /^[A-Za-z0-9-]{1,64}$/;

/**
 * Reads the header of one connection. Discard the reader after any result other than `incomplete`.
 */
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

/**
 * Reads the list of fields after the addresses. Returns the ids of the network, instance and
 * project by type number, and skips other types. Returns `undefined` if the list or one of the ids
 * is malformed.
 */
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

/** Returns the address as text. An IPv4 address mapped into IPv6 is returned as IPv4. */
function readAddress(bytes: Buffer): string {
  return ipaddr.process(ipaddr.fromByteArray([...bytes]).toString()).toString();
}

/** One endpoint of a connection. */
export interface ProxyEndpoint {
  readonly address: string;
  readonly port: number;
}

/**
 * Returns the header that a relay sends for a connection.
 * @param source - endpoint of the peer; its address becomes {@link RelayedPeer.address}
 * @throws TypeError for an id that is not a valid network, instance or project id
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
  if (!idForm.test(text))
    throw new TypeError(
      `the id ${text} in a PROXY header must consist of 1 to 64 letters, digits or "-"`,
    );
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
 * Returns the address that the master records for a relayed peer. It is `instance:PROJECT/INSTANCE`
 * if the relay knows the instance. Otherwise it is `NETWORK/ADDRESS`, because two networks may use
 * the same addresses.
 */
export function relayedAddress({ network, address, instance, project }: RelayedPeer): string {
  if (instance === undefined) return `${network}/${address}`;
  return `instance:${project}/${instance}`;
}

/** Whether the text has the form of a {@link relayedAddress}. */
export function isRelayedAddress(text: string): boolean {
  return /^(?:[A-Za-z0-9-]{1,64}\/[\da-f.:]{2,39}|instance:[A-Za-z0-9-]{1,64}\/[A-Za-z0-9-]{1,64})$/.test(
    text,
  );
}

/** Whether an IP address is IPv4. */
function isIpv4(address: string): boolean {
  return !address.includes(':');
}
