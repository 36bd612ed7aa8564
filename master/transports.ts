import type { Logger } from 'pino';
import {
  type FixedConfig,
  type RelayOptions,
  type ServedTransport,
  type SslOptions,
  servedTransports,
} from '#config';
import {
  createTcpListener,
  createWebsocketListener,
  createZeromqListener,
  type MasterTransport,
  type TlsOptions,
} from '#minion-protocol';
import type { MasterContext } from './context/index.ts';
import type { Requests } from './requests/index.ts';
import type { BoundTransport } from './status.ts';

/**
 * Binds the ports of all transports. The transports then serve minions until the master closes.
 * Returns the name and the bound ports of each transport.
 */
export async function listen(
  transports: readonly MasterTransport[],
  requests: Requests,
  { closers }: MasterContext,
): Promise<readonly BoundTransport[]> {
  const bound: BoundTransport[] = [];
  for (const transport of transports) {
    closers.add(transport, (it) => it.close());
    const ports = await transport.listen(requests.handle, requests.announce);
    bound.push({ transport: transport.name, ...ports });
  }
  return bound;
}

/**
 * Makes each transport load its TLS certificate again, if the file has changed. A failure is
 * logged, and the previous certificate stays active.
 * @returns the renewed certificate files
 */
export async function renewCertificates(
  transports: readonly MasterTransport[],
  log: Logger,
): Promise<readonly string[]> {
  const renewed: string[] = [];
  for (const transport of transports) {
    try {
      renewed.push(...((await transport.renewCertificate?.()) ?? []));
    } catch (error) {
      const { name } = transport;
      log.error(
        { transport: name, err: error },
        'cannot load a renewed TLS certificate; the previous certificate stays in use',
      );
    }
  }
  return renewed;
}

/**
 * Creates the configured transports without binding their ports. The first transport is the one in
 * the option `transport`.
 */
export function createTransports(config: FixedConfig, log: Logger): readonly MasterTransport[] {
  return servedTransports(config).map((served) =>
    createTransport(served, config.limits.requestBytes, log),
  );
}

function createTransport(
  served: ServedTransport,
  maxMessageBytes: number,
  log: Logger,
): MasterTransport {
  const options = {
    // Salt's default address for IPv4 or IPv6, as the option `ipv6` selects.
    host: served.ipv6 === true && served.interface === '0.0.0.0' ? '::' : served.interface,
    requestPort: served.retPort,
    publishPort: served.publishPort,
    backlog: served.zmqBacklog,
    keepAliveIdleMs: served.tcpKeepalive ? Math.max(0, served.tcpKeepaliveIdle) * 1000 : null,
    maxQueuedMessages: served.pubHwm === 0 ? Number.POSITIVE_INFINITY : served.pubHwm,
    limits: { maxMessageBytes },
    ...(served.relay === null ? {} : { relay: toRelayPorts(served.relay) }),
  };
  const tls =
    served.ssl === false ? {} : { tls: { ...toTls(served.ssl), onRenewal: reporter(served, log) } };
  switch (served.name) {
    case 'zeromq':
      return createZeromqListener({ ...options, filtering: served.zmqFiltering });
    case 'tcp':
      return createTcpListener({ ...options, ...tls });
    case 'ws':
      return createWebsocketListener({ ...options, ...tls });
  }
}

function toRelayPorts({ interface: host, retPort, publishPort, from }: RelayOptions) {
  return { ...(host === undefined ? {} : { host }), requestPort: retPort, publishPort, from };
}

function reporter({ name, ssl }: ServedTransport, log: Logger): (error: unknown) => void {
  const about = { transport: name, certificate: ssl === false ? undefined : ssl.certfile };
  return (error) => {
    if (error === undefined) log.info(about, 'certificate renewed');
    else
      log.error(
        { ...about, err: error },
        'cannot load a renewed TLS certificate; the previous certificate stays in use',
      );
  };
}

const clientCertificates = {
  CERT_NONE: 'none',
  CERT_OPTIONAL: 'optional',
  CERT_REQUIRED: 'required',
} as const;

function toTls({
  certfile,
  keyfile,
  caCerts,
  certReqs = 'CERT_NONE',
  sslVersion,
  ciphers,
}: SslOptions): TlsOptions {
  return {
    certFile: certfile,
    ...(keyfile === undefined ? {} : { keyFile: keyfile }),
    ...(caCerts === undefined ? {} : { caFile: caCerts }),
    clientCertificates: clientCertificates[certReqs],
    ...(sslVersion === 'PROTOCOL_TLSv1_2' ? { onlyVersion: 'TLSv1.2' } : {}),
    ...(ciphers === undefined ? {} : { ciphers }),
  };
}
