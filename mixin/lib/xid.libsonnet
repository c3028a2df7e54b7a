// What the XID errors mean, after NVIDIA's documentation "XID Errors". What to do is in the runbook.
{
  // Somebody is woken for these. The exporter shows them with 0 from its start.
  critical: {
    '62': 'its micro-controller has halted',
    '74': 'an error of an NVLink connection',
    '79': 'it has fallen off the bus',
    '119': 'its system processor (GSP) did not answer',
    '120': 'an error of its system processor (GSP)',
    '143': 'it could not be initialised',
  },
  // These are tickets.
  warning: {
    '61': 'its micro-controller has stopped',
    '92': 'many corrected errors of its memory',
    '109': 'a program could not be switched away from in time',
    '121': 'an error of its link to the processor (C2C)',
  } + {
    [std.toString(code)]: 'an error of NVLink 5'
    for code in std.range(144, 150)
  },
  // Another alert tells of these until it is done what they ask for, or a program is the cause.
  other: {
    '13': 'a program has made an error, such as an access out of bounds',
    '31': 'a program has touched memory that is not its own',
    '43': 'a program has been stopped after an error of its own',
    '45': 'the work of a program was cleaned up when it ended',
    '48': 'an error of the memory that could not be corrected',
    '63': 'a row or page of the memory is to be replaced',
    '64': 'a row or page of the memory could not be replaced',
    '94': 'an error of the memory that was contained: one program was killed',
    '95': 'an error of the memory that was not contained',
    '140': 'errors of the memory that the driver could not recover from',
    '154': 'the driver asks for a recovery',
    '171': 'the error of XID 48 was in the DRAM',
    '172': 'the error of XID 48 was in the SRAM',
  },
}
