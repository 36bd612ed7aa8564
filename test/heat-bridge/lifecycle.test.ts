/** The bridge as an extension: with a master, and without one. */
import test from 'ava';
import { BridgeError, createBridge } from '../../heat-bridge/index.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';

test('a master with a bridge starts, and closes, without any configuration of it', async (t) => {
  const { master } = await startVectorMaster(t, { extensions: [createBridge()] });
  t.truthy((await master.status()).id);
  await master.close();
});

test('a key of the configuration that the bridge does not know ends the start, and is named', async (t) => {
  const starting = startVectorMaster(t, {
    config: { bridge: { catalogue: ['/x'] } },
    extensions: [createBridge()],
  });
  const error = await t.throwsAsync(starting, {
    instanceOf: BridgeError,
    code: 'ERR_BRIDGE_OPTIONS',
  });
  t.regex(error.message, /saltbridge:bridge:catalogue/);
});

test('a bridge is of one master', async (t) => {
  const bridge = createBridge();
  await startVectorMaster(t, { extensions: [bridge] });
  await t.throwsAsync(startVectorMaster(t, { extensions: [bridge] }), {
    code: 'ERR_BRIDGE_NOT_OPEN',
  });
});
