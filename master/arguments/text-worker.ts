/**
 * Worker thread that parses texts, one after the other. It receives the texts that are too long for
 * the main thread.
 */

import { parentPort } from 'node:worker_threads';
import { readText, type TextAnswer, type TextTask } from './argument-reader.ts';
import { writeMarkedJson } from './arguments.ts';

parentPort?.on('message', (task: TextTask) => {
  parentPort?.postMessage(answerOf(task));
});
parentPort?.postMessage('ready');

function answerOf(task: TextTask): TextAnswer {
  try {
    return { ok: true, json: writeMarkedJson(readText(task)) };
  } catch (error) {
    return {
      ok: false,
      problem: error instanceof Error ? error.message : 'the text cannot be parsed',
    };
  }
}
