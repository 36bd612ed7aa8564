import { codeOf } from '#runtime';

/**
 * Runs `follow`, and runs it again each time the event bus has disconnected the reader for being
 * too slow.
 * @param follow - subscribes to events, and reads them until the subscription ends
 * @param onDropped - reports that the reader has missed events
 */
export async function followAgain(
  follow: () => Promise<void>,
  onDropped: () => void | Promise<void>,
): Promise<void> {
  for (;;) {
    try {
      return await follow();
    } catch (error) {
      if (codeOf(error) !== 'ERR_READER_DROPPED') throw error;
      await onDropped();
    }
  }
}
