import { createZeromqListener, type MasterTransport } from '../minion-protocol/index.ts';
import type { MasterConfig } from './config/options.ts';

/** The transports that the configuration asks for, not yet bound. */
export function createTransports(config: MasterConfig): readonly MasterTransport[] {
  return [
    createZeromqListener({
      host: config.interface,
      requestPort: config.retPort,
      publishPort: config.publishPort,
      backlog: config.zmqBacklog,
      keepAliveIdleMs: Math.max(0, config.tcpKeepaliveIdle) * 1000,
      filtering: config.zmqFiltering,
      maxQueuedMessages: config.pubHwm,
      limits: { maxMessageBytes: config.limits.requestBytes },
    }),
  ];
}
