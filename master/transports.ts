import { createZeromqListener, type MasterTransport } from '../minion-protocol/index.ts';
import type { MasterConfig } from './config/options.ts';

/** The transports that the configuration asks for, not yet bound. */
export function createTransports(config: MasterConfig): readonly MasterTransport[] {
  return [
    createZeromqListener({
      // Salt's own default address, on the family that `ipv6` asks for.
      host: config.ipv6 === true && config.interface === '0.0.0.0' ? '::' : config.interface,
      requestPort: config.retPort,
      publishPort: config.publishPort,
      backlog: config.zmqBacklog,
      keepAliveIdleMs: config.tcpKeepalive ? Math.max(0, config.tcpKeepaliveIdle) * 1000 : null,
      filtering: config.zmqFiltering,
      maxQueuedMessages: config.pubHwm,
      limits: { maxMessageBytes: config.limits.requestBytes },
    }),
  ];
}
